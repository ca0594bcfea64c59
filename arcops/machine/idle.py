"""Become a process that takes what others leave: of the processor, and of the disk."""

import ctypes
import errno
import os
import platform

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30}
"""System call numbers of the kernel's tables; the C library has no function for it."""
_WHO_PROCESS = 1
_CLASS_IDLE = 3
_CLASS_SHIFT = 13
"""include/uapi/linux/ioprio.h"""
LOWEST = 19


def become() -> None:
    """The lowest priority of processor and disk for this process, and whatever it starts. Raises OSError."""
    os.nice(LOWEST)
    number = _IOPRIO_SET.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"arcops does not know ioprio_set of {platform.machine()}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, _WHO_PROCESS, 0, _CLASS_IDLE << _CLASS_SHIFT) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

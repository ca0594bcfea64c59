"""Ask a card for a sign of life: open its render node and ask for the driver's version. A script of its own.

An open can hang in a driver for good, and a process that does cannot be killed: so the supervisor lets a child do it.
The standard library alone, run with `python -I -S`. Prints nothing when the card answers, else the step that failed and
its errno: `open 13`, `ioctl 125`.
"""

import fcntl
import os
import sys
from collections.abc import Callable

VERSION = 0xC0406400
"""DRM_IOCTL_VERSION, _IOWR('d', 0, struct drm_version), whose 64 bytes are the same on every 64-bit machine."""
SIZE = 64


def ask(
    node: str,
    opener: Callable[[str, int], int] = os.open,
    ioctl: Callable[[int, int, bytearray], int] = fcntl.ioctl,
) -> str:
    """`""` if the driver answers, else the step that failed and its errno.

    Every driver answers this one, and it touches no engine. xe refuses all of them with ECANCELED once it has declared
    the card wedged, and DRM's core with ENODEV once the card is unplugged.
    """
    try:
        descriptor = opener(node, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"open {error.errno}"
    try:
        ioctl(descriptor, VERSION, bytearray(SIZE))
    except OSError as error:
        return f"ioctl {error.errno}"
    finally:
        os.close(descriptor)
    return ""


if __name__ == "__main__":
    sys.stdout.write(ask(sys.argv[1]))

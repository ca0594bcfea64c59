"""Render nodes of cards that are not there: files of a FUSE file system that answer DRM's one question. A program.

    python -I -S stand_in_cards.py /dev/dri DRIVER NODE...

It stands in for a graphics driver, and for nothing else of a card: whoever opens one of these nodes and asks for the
driver's version goes through the kernel, as with a real one, and gets an answer. There is no memory, no engine and no
client in fdinfo. While a file /run/cards/NODE has a number, that node answers with this errno (125, ECANCELED: xe has
declared the card wedged). Needs root and /dev/fuse; the standard library alone.

Source: include/uapi/linux/fuse.h (7.31), include/uapi/drm/drm.h; fs/fuse/ioctl.c passes on ioctls of regular files.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
from enum import IntEnum

FAULTS = "/run/cards"
VERSION = 0xC0406400
"""DRM_IOCTL_VERSION; its 64 bytes are the same on every 64-bit machine."""
_DRM_VERSION = struct.Struct("iii4xQQQQQQ")
"""Major, minor, patch; then length and place of the name, the date and the description. It tells the lengths alone."""

_REQUEST = struct.Struct("IIQQIIIHH")
_REPLY = struct.Struct("IiQ")
_INITIALISED = struct.Struct("IIIIHHIIHHI28x")
_ATTRIBUTES = struct.Struct("6Q10I")
_ENTRY = struct.Struct("QQQQII")
_ATTRIBUTES_HEAD = struct.Struct("QII")
_OPENED = struct.Struct("QII")
_READ = struct.Struct("QQI")
_LISTED = struct.Struct("QQII")
_ASKED = struct.Struct("QIIQII")
_TOLD = struct.Struct("iIII")
_LARGEST = 128 * 1024
"""Bytes of a request that are read; the kernel wants room for a page and some."""
_FOLDER = 1
"""Number of the folder; the nodes follow."""
_FIRST = 2
_MOUNT_FLAGS = 2 | 4
"""MS_NOSUID and MS_NODEV."""


class Op(IntEnum):
    """What the kernel asks."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    RELEASE = 18
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    INTERRUPT = 36
    IOCTL = 39
    BATCH_FORGET = 42


_UNANSWERED = frozenset({Op.FORGET, Op.BATCH_FORGET, Op.INTERRUPT})


class Cards:
    """A folder with a node for each card."""

    def __init__(self, driver: str, names: list[str]) -> None:
        self._driver = driver
        self._names = names

    def answer(self, op: int, node: int, body: bytes) -> bytes:
        """Raises OSError for what is refused."""
        match op:
            case Op.INIT:
                return _INITIALISED.pack(7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0)
            case Op.LOOKUP:
                return self._entry(body.rstrip(b"\0").decode())
            case Op.GETATTR:
                return _ATTRIBUTES_HEAD.pack(1, 0, 0) + self._attributes(node)
            case Op.OPEN | Op.OPENDIR:
                return _OPENED.pack(0, 0, 0)
            case Op.READDIR:
                return self._listing(first=_READ.unpack_from(body)[1])
            case Op.RELEASE | Op.RELEASEDIR | Op.FLUSH:
                return b""
            case Op.IOCTL:
                return self._told(node, command=_ASKED.unpack_from(body)[2])
            case _:
                raise OSError(errno.ENOSYS, "nothing that a render node is asked here")

    def _entry(self, name: str) -> bytes:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, name)
        node = _FIRST + self._names.index(name)
        return _ENTRY.pack(node, 0, 1, 1, 0, 0) + self._attributes(node)

    def _attributes(self, node: int) -> bytes:
        mode = stat.S_IFDIR | 0o755 if node == _FOLDER else stat.S_IFREG | 0o666
        return _ATTRIBUTES.pack(node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _listing(self, first: int) -> bytes:
        entries = b""
        for number, name in list(enumerate(self._names))[first:]:
            padded = name.encode() + b"\0" * (-len(name) % 8)
            entries += _LISTED.pack(_FIRST + number, number + 1, len(name), stat.S_IFREG >> 12) + padded
        return entries

    def _told(self, node: int, command: int) -> bytes:
        fault = _fault(self._names[node - _FIRST])
        if fault:
            raise OSError(fault, os.strerror(fault))
        if command != VERSION:
            raise OSError(errno.EINVAL, "not the driver's version")
        return _TOLD.pack(0, 0, 0, 0) + _DRM_VERSION.pack(1, 1, 0, len(self._driver), 0, 0, 0, 0, 0)


def _fault(name: str) -> int:
    try:
        with open(os.path.join(FAULTS, name), encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


def mounted(place: str) -> int:
    """The descriptor over which the kernel asks, once `place` is ours."""
    descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    # default_permissions: the kernel alone judges who may open what, by the attributes.
    options = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"cards", place.encode(), b"fuse", _MOUNT_FLAGS, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount {place}")
    return descriptor


def serve(descriptor: int, cards: Cards) -> None:
    """Answer until it is unmounted."""
    while True:
        try:
            request = os.read(descriptor, _LARGEST)
        except OSError as problem:
            if problem.errno == errno.ENODEV:
                return
            if problem.errno in (errno.ENOENT, errno.EINTR):  # whoever asked has gone
                continue
            raise
        _, op, unique, node, *_ = _REQUEST.unpack_from(request)
        if op in _UNANSWERED:
            continue
        try:
            number, body = 0, cards.answer(op, node, request[_REQUEST.size :])
        except OSError as refused:
            number, body = refused.errno or errno.EIO, b""
        os.write(descriptor, _REPLY.pack(_REPLY.size + len(body), -number, unique) + body)


if __name__ == "__main__":
    serve(mounted(sys.argv[1]), Cards(sys.argv[2], sys.argv[3:]))

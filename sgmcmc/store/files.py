"""Files that are put in place in one step, so that none is ever half-written."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows, which locks by another call
    fcntl = None

NO_ROOM = errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", None)
ASIDE = ".writing"  # the end of the names of files that are not in place yet
LOCK, RECORD = "sgmcmc.lock", "sgmcmc.json"


def put(path: Path, parts: Iterable[Any], sync: bool = True) -> None:
    """Write a file of these bytes or arrays aside, and put it in place of an older one.

    With `sync` it is on the disk itself, and not only in the system's memory.
    """
    aside = path.with_name(path.name + ASIDE)
    try:
        with open(aside, "wb", buffering=0) as file:
            for part in parts:
                rest = memoryview(part).cast("B")
                while len(rest):
                    rest = rest[file.write(rest) :]
            if sync:
                os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise
    os.replace(aside, path)


def sync(path: Path) -> None:
    """See that a file, or the names in a folder, are on the disk itself."""
    if os.name == "nt" and path.is_dir():
        return  # Windows has no such call for folders
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class Lock:
    """A file that one process holds, until it lets it go or ends in any way."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK
        self.number: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if fcntl:
                fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held = os.read(self.number, 1000).decode(errors="replace")
            os.close(self.number)
            self.number = None
            raise ValueError(
                f"out: another process is writing to {str(folder)!r} ({described(held)}): wait "
                "until it ends, or give another path"
            ) from None
        me = {"process": os.getpid(), "host": socket.gethostname()}
        os.ftruncate(self.number, 0)
        os.pwrite(self.number, json.dumps(me).encode(), 0)

    def check(self) -> None:
        """See that the file is still there, and with it the folder."""
        try:
            is_there = os.path.samestat(os.stat(self.path), os.fstat(self.number))
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise OSError(errno.ENOENT, "it was removed during the run")

    def release(self) -> None:
        """Let another process write."""
        if self.number is not None:
            os.close(self.number)
            self.number = None


def described(held: str) -> str:
    """Who holds a lock, from what is in its file."""
    try:
        known = json.loads(held)
        return f"process {known['process']} on {known['host']}"
    except (ValueError, KeyError, TypeError):
        return "it does not say which"

"""Keeps two processes from recording into one file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat


class Claim:
    """A lock on a trace file, from the start of its recording to the end of it or of the process.

    Attributes:
        path: The file that was asked for, or ``PATH.PID`` where another process records into it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd: int | None = None
        for candidate in (path, f"{path}.{os.getpid()}"):
            try:
                self._fd = _locked(candidate)
            except BlockingIOError:
                continue
            except OSError:  # the recorder says why it cannot be written
                return
            self.path = candidate
            return

    def release(self) -> None:
        """Ends it, also where a forked child has inherited the lock."""
        if self._fd is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)
            self._fd = None


def _locked(path: str) -> int | None:
    """A descriptor with the lock; None for what is no regular file, such as a pipe.

    Raises:
        BlockingIOError: Another process has the lock.
        OSError: The file cannot be opened or locked.
    """
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        return None
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    fd = os.open(path, flags, 0o666)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd

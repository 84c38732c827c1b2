"""Compiles the adapters in a separate process, so that a monitor need not wait for them.

The process is ``plimsoll prepare`` at a low priority, in its own session. It is no child of this
one: its end sends no signal and leaves no zombie. If the program ends first, the process finishes
its work, so that the next run has the adapters. At most one runs for this process.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time

from plimsoll import _record
from plimsoll.errors import AdapterError

_NICE = 10

# The program's descriptors are closed. The pipe at stdout stays open as long as the process runs,
# which is how its end is noticed.
_PROGRAM = f"""
import os, sys
os.closerange(3, 1 << 16)
alive = os.dup(1)
os.dup2(2, 1)
os.nice({_NICE})
sys.path[:] = sys.argv[1:]
from plimsoll._command import prepare
prepare.main()
"""


class Compilation:
    """A process that compiles the adapters.

    Attributes:
        since_ns: When it began.
        log: The path of its output.
    """

    def __init__(self, folder: str) -> None:
        """Start the process.

        Args:
            folder: Where its output is written, in ``background.txt``.

        Raises:
            AdapterError: It cannot be started.
            OSError: The same, or its log cannot be written.
        """
        self.since_ns = time.time_ns()
        self.log = f"{folder}/background.txt"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW
        log = _not_standard(os.open(self.log, flags, 0o600))
        self._pipe, writes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        writes = _not_standard(writes)
        try:
            self._start(writes, log)
        except BaseException:
            self._close()
            raise
        finally:
            os.close(writes)
            os.close(log)

    def _start(self, writes: int, log: int) -> None:
        words = [sys.executable, "-I", "-S", "-c", _PROGRAM, *(each or "." for each in sys.path)]
        kept = {name: text for name, text in os.environ.items() if _is_passed_on(name)}
        error = _record.start_detached(
            [os.fsencode(each) for each in words],
            [os.fsencode(f"{name}={text}") for name, text in kept.items()],
            writes,
            log,
        )
        if error != 0:
            reason = os.strerror(error)
            raise AdapterError(f"the adapter cannot be compiled in the background ({reason})")

    def has_ended(self) -> bool:
        """Return whether the process has ended. Never waits. One thread at a time."""
        if self._pipe < 0:
            return True
        try:
            os.read(self._pipe, 1)  # it is empty, or has no writer any more
        except BlockingIOError:
            return False
        self._close()
        return True

    def _close(self) -> None:
        pipe, self._pipe = self._pipe, -1
        os.close(pipe)


def _not_standard(file: int) -> int:
    """Return a descriptor that is none of stdin, stdout and stderr, which may be closed."""
    moved = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(file)
    return moved


def _is_passed_on(name: str) -> bool:
    """Return whether the process gets a variable: none that would record it."""
    return name == "PLIMSOLL_CACHE" or not name.startswith("PLIMSOLL")

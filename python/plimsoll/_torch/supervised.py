"""Runs a command that ends when it hangs, and with the process that started this one.

``python -I -S supervised.py SECONDS COMMAND ARGS…``: executed by its path, in a process of its
own. Exits with the command's status, 128 + N after signal N, or 124 if the command was killed
because its processes together used no processor time worth mentioning for SECONDS, and none of
them waits for a processor or a disk: on a busy machine, slow is no hang.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_LEAST_SHARE = 0.05  # of one processor; less is a hang
_CPU_SECONDS = 240  # of one process


def main() -> None:
    seconds, words = float(sys.argv[1]), sys.argv[2:]
    parent = os.getppid()
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(143)

    child = os.fork()
    if child == 0:
        _become(words, libc)
    signal.signal(signal.SIGTERM, lambda *_: _end(child, 143))
    if os.getppid() != parent:
        _end(child, 143)
    used, end = 0.0, time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            _end(child, code if code >= 0 else 128 - code)
        if time.monotonic() < end:
            time.sleep(0.05)
            continue
        before, (used, is_slow) = used, _use_of(child)
        if not is_slow and used - before < _LEAST_SHARE * seconds:
            print(f"{words[0]} hung for {seconds:.0f} s and was killed", file=sys.stderr)
            _end(child, 124)
        end = time.monotonic() + seconds


def _become(words: list[str], libc: ctypes.CDLL) -> NoReturn:
    os.setsid()
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    try:
        os.execvp(words[0], words)
    except (OSError, ValueError) as error:
        print(f"{words[0]}: {error}", file=sys.stderr, flush=True)
    os._exit(127)


def _end(child: int, status: int) -> NoReturn:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    sys.stderr.flush()
    os._exit(status)


def _use_of(group: int) -> tuple[float, bool]:
    """The processor seconds of a group, and whether one of its processes waits for more.

    Processes that have ended and were waited for count, too.
    """
    ticks, is_slow = 0, False
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            if int(fields[2]) == group:
                ticks += sum(map(int, fields[11:15]))
                is_slow = is_slow or fields[0] in (b"R", b"D")
    return ticks / os.sysconf("SC_CLK_TCK"), is_slow


if __name__ == "__main__":
    main()

"""Runs a command, and kills it if it hangs or if the process that started this one ends.

``python -I -S supervised.py SECONDS COMMAND ARGS…``: executed by its path, in a separate process.
Exits with the command's status, or with 128 + N after signal N. Exits with 124 if the command was
killed because it hung: its processes used almost no CPU time for SECONDS, and none of them waited
for a CPU or a disk. On a busy machine, a slow command therefore does not count as hung.
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
_LEAST_SHARE = 0.05  # of one CPU; a command that uses less hangs
_CPU_SECONDS = 240  # limit for one process


def main() -> None:
    seconds, words = float(sys.argv[1]), sys.argv[2:]
    parent = os.getppid()
    libc = ctypes.CDLL(None)
    # Without a handler, SIGTERM would leave the compiler's own children running.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(143)

    supervisor = os.getpid()
    child = os.fork()
    if child == 0:
        _become(words, libc, supervisor)
    signal.signal(signal.SIGTERM, lambda *_: _end(child, 143))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    if os.getppid() != parent:
        _end(child, 143)
    used, worked, next_check = 0.0, time.monotonic(), 0.0
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            _end(child, code if code >= 0 else 128 - code)
        time.sleep(0.05)
        now = time.monotonic()
        if now < next_check:
            continue
        next_check = now + min(1, seconds / 4)
        before, (used, is_slow) = used, _use_of(child)
        if is_slow or used - before > _LEAST_SHARE * (next_check - now):
            worked = now
        elif now - worked >= seconds:
            print(f"{words[0]} hung for {seconds:.0f} s and was killed", file=sys.stderr)
            _end(child, 124)


def _become(words: list[str], libc: ctypes.CDLL, supervisor: int) -> NoReturn:
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(143)
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
    """Return the CPU seconds of a process group, and whether one of them waits for a CPU or disk.

    Processes that have ended and have been waited for also count.
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

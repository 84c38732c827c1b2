"""Runs the command for the end-to-end tests."""

import ctypes
import os
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


class Plimsoll:
    """The command under test; each call runs it."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __call__(
        self, *words, env=None, cwd=None, stdout=subprocess.PIPE, timeout=120, **how
    ) -> Outcome:
        """Run with these arguments, in an environment without color settings."""
        ran = subprocess.run(
            [self.command, *map(str, words)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment() | (env or {}),
            cwd=cwd,
            timeout=timeout,
            check=False,
            **how,
        )
        return Outcome(ran.returncode, (ran.stdout or b"").decode(), ran.stderr.decode())


def without_privilege() -> None:
    """Let the program that is started next, as root too, access only what modes of files allow.

    The user stays the same: another one could not reach a checkout in a private folder.
    """
    if os.geteuid() == 0:
        set_securebits, no_root = 28, 1  # PR_SET_SECUREBITS, SECBIT_NOROOT: capabilities(7)
        assert ctypes.CDLL(None).prctl(set_securebits, no_root, 0, 0, 0) == 0


def environment() -> dict[str, str]:
    ours = {"NO_COLOR", "COLUMNS", "TERM"}
    return {name: value for name, value in os.environ.items() if name not in ours}


def complains(outcome: Outcome, status: int, *words: str) -> None:
    """Assert that the run failed with this status and one sentence that contains these words."""
    assert outcome.status == status, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("plimsoll: "), outcome.err
    assert outcome.err.count("\n") == 1, outcome.err
    for word in words:
        assert word in outcome.err, outcome.err

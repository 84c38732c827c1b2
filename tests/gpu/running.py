"""Runs cases as processes, several at a time, and passes on each check as soon as it is printed.

`Runner` uses one thread for each running case; `stop` may be called at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from case_list import Case, environment_of

HERE = Path(__file__).resolve().parent
CASE_SECONDS = 240
PROGRAM = (sys.executable, str(HERE / "cases.py"))
HOLDS, FAILS, NOT_RUN = "holds", "FAILS", "not run"


@dataclass(frozen=True)
class Check:
    """One line of the table; only `HOLDS` is a pass."""

    case: str
    what: str
    state: str
    found: str


@dataclass(frozen=True)
class Limits:
    """How many cases run at a time, and when all must have ended (by time.monotonic())."""

    jobs: int
    end: float = float("inf")
    reason: str = "the time limit was reached"


class Runner:
    """Runs cases and calls `add` with each check, and `took` with the seconds of each case."""

    def __init__(
        self,
        folder: Path,
        limits: Limits,
        add: Callable[[Check], object],
        took: Callable[[Case, float], object],
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self._folder, self._limits, self._program = folder, limits, tuple(program)
        self._add, self._took = add, took
        self._processes: set[subprocess.Popen[str]] = set()
        self._stopped: str | None = None

    def run_all(self, cases: Sequence[Case]) -> None:
        """Run the cases in parallel, then those that must run alone."""
        with ThreadPoolExecutor(self._limits.jobs) as pool:
            for each in [pool.submit(self.run, case) for case in cases if not case.alone]:
                each.result()
        for case in cases:
            if case.alone:
                self.run(case)

    def stop(self, reason: str) -> None:
        """End the running cases, and skip the others."""
        self._stopped = reason
        for process in list(self._processes):
            end(process)

    def run(self, case: Case) -> None:
        """Run one case; if it does not end normally, add a failed check."""
        began = time.monotonic()
        if began >= self._limits.end:
            self._stopped = self._stopped or self._limits.reason
        if self._stopped is not None:
            self._add(Check(case.name, "ends", NOT_RUN, f"not started: {self._stopped}"))
            return
        place = self.place(case)
        shutil.rmtree(place, ignore_errors=True)  # recordings never overwrite a file
        place.mkdir(parents=True)
        count, status = self._checks(case, place, min(began + CASE_SECONDS, self._limits.end))
        seconds = time.monotonic() - began
        self._took(case, seconds)
        if self._stopped is not None:
            found = f"stopped after {seconds:.0f} s: {self._stopped}"
            self._add(Check(case.name, "ends", NOT_RUN, found))
        elif status is None:
            self._add(Check(case.name, "ends", FAILS, f"not within {CASE_SECONDS} s"))
        elif status != 0 or count == 0:
            last = (place / "errors.txt").read_text(errors="replace").strip().splitlines()[-1:]
            found = f"status {status}: {last[0] if last else 'no message'}"
            self._add(Check(case.name, "ends", FAILS, found))

    def place(self, case: Case) -> Path:
        """Return the folder in which a case runs."""
        return self._folder / "cases" / case.name.replace(", ", "-").replace(" ", "_")

    def _checks(self, case: Case, place: Path, limit: float) -> tuple[int, int | None]:
        """Pass on the checks of a case; return their number and its status, None past the limit."""
        with open(place / "errors.txt", "w") as errors, open(place / "output.txt", "w") as output:
            process = subprocess.Popen(
                [*self._program, case.function, *case.words],
                cwd=place,
                env=environment_of(case, place),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._processes.add(process)
            is_late = threading.Event()
            timer = threading.Timer(limit - time.monotonic(), self._end_late, (process, is_late))
            timer.daemon = True
            timer.start()
            if self._stopped is not None:  # while it was starting
                end(process)
            count = 0
            assert process.stdout is not None
            for line in process.stdout:
                output.write(line)
                for check in checks_of(case.name, line):
                    self._add(check)
                    count += 1
            status = process.wait()
            timer.cancel()
            self._processes.discard(process)
        return count, None if is_late.is_set() else status

    def _end_late(self, process: subprocess.Popen[str], is_late: threading.Event) -> None:
        is_late.set()
        if time.monotonic() >= self._limits.end:
            self._stopped = self._stopped or self._limits.reason
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a case and the processes that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def checks_of(case: str, text: str) -> list[Check]:
    """Return the lines that a case printed for the table, without its other output."""
    found = []
    for line in text.splitlines():
        if line.startswith('{"check": '):
            row = json.loads(line)
            state = HOLDS if row["holds"] else FAILS
            found.append(Check(case, row["check"], state, row["found"]))
    return found

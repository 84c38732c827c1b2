"""Monitors start without the compiled adapter, and the adapter replaces the fallback later."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from compiler_processes import hanging_compiler, is_running
from tests.support.waiting import wait_until

from plimsoll._torch import adapter

pytestmark = pytest.mark.slow  # each test starts a process with torch

BEGUN = (
    "plimsoll: compiling the adapter in the background (once; `plimsoll prepare` does it "
    "beforehand); until then, memory is recorded from Python, which sees less"
)
SWITCHED = "plimsoll: the adapter is compiled; it now replaces the recording from Python"
KEPT = ": recording from Python instead, which is slower and sees less"


def run(*words, **variables) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


# ---- the switch, with an adapter that is already compiled ---------------------------------------


@pytest.mark.parametrize("case", ["training", "old_memory", "places", "steps", "interrupted"])
def test_figures_are_right_across_the_switch(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run(Path(__file__).with_name("switching.py"), case)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines() == [BEGUN, SWITCHED]


@pytest.mark.parametrize("case", ["recording", "waiting"])
def test_a_recording_does_not_inherit_the_fallback(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run(Path(__file__).with_name("switching.py"), case)
    assert ran.returncode == 0, ran.stderr
    begun = [BEGUN] if case == "recording" else [BEGUN, BEGUN]
    assert ran.stderr.splitlines() == [*begun, SWITCHED]


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("fails", "the adapter did not compile; see cache/log.txt"),
        (
            "ends_early",
            "the compilation of the adapter ended without a result; see background.txt",
        ),
    ],
)
def test_without_an_adapter_the_fallback_stays(case, problem):
    ran = run(Path(__file__).with_name("switching.py"), case)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines() == [BEGUN, f"plimsoll: {problem}{KEPT}"]


# ---- the process in the background ---------------------------------------------------------------

QUIET = """
import os, signal, sys, time
signals = []
signal.signal(signal.SIGCHLD, lambda *each: signals.append(each))
import torch, plimsoll
from plimsoll._torch import attachment
def is_quiet():
    try:
        return os.waitpid(-1, os.WNOHANG) and False
    except ChildProcessError:
        return not signals
"""

SWITCHES = (
    QUIET
    + """
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
monitor = plimsoll.EpochMemoryMonitor(verbose_batches=0)
def train():
    model(torch.ones(4, 64)).sum().backward()
    optimizer.step()
    monitor.on_batch_end(0)
    assert is_quiet()
train()
assert attachment.attached().kind == "python"
open(sys.argv[1], "w").close()  # the compiler waits for it
while attachment.attached().kind == "python":
    train()
    time.sleep(0.01)
train()
assert attachment.attached().kind == "libtorch"
"""
)


def slow_compiler(folder: Path) -> Path:
    """A compiler that waits for the file `go`, and then copies an adapter that is compiled."""
    (folder / "library.so").write_bytes(adapter.compiled(adapter.CPU, print).content)
    path = folder / "compiler"
    path.write_text(f"""#!/bin/sh
while [ ! -e '{folder}/go' ]; do sleep 0.02; done
while [ "$1" != -o ]; do shift; done
cp '{folder}/library.so' "$2"
""")
    path.chmod(0o755)
    return path


def test_a_monitor_starts_at_once_and_switches_when_the_adapter_is_compiled(tmp_path):
    compiler, cache = slow_compiler(tmp_path), tmp_path / "cache"
    ran = run(
        "-c", SWITCHES, tmp_path / "go", PLIMSOLL_CACHE=str(cache), CXX=shlex.quote(str(compiler))
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.splitlines() == [BEGUN, SWITCHED]


def test_a_compiler_that_fails_is_reported_once_with_the_log(tmp_path):
    program = (
        QUIET
        + """
tracker = plimsoll.MemoryTracker()
while attachment._is_interim:
    tracker.record("here")
    time.sleep(0.01)
tracker.record("here")
assert attachment.attached().kind == "python"
assert is_quiet()
plimsoll.stop_monitoring()
with plimsoll.track_memory("again"):  # does not compile again
    pass
assert attachment.attached().kind == "python"
"""
    )
    ran = run("-c", program, PLIMSOLL_CACHE=str(tmp_path), CXX="false")
    assert ran.returncode == 0, ran.stderr
    (log,) = tmp_path.glob("*/log.txt")
    problem = f"plimsoll: the adapter did not compile against this torch; see {log}"
    assert ran.stderr.splitlines() == [BEGUN, problem + KEPT]


ENDS = (
    QUIET
    + """
tracker = plimsoll.MemoryTracker()
while not os.path.exists(sys.argv[1]):
    tracker.record("here")
    time.sleep(0.01)
assert is_quiet()
"""
)


def test_a_program_does_not_wait_for_the_compiler_at_its_end(tmp_path):
    """The compiler continues, and its result is there for the next run."""
    compiler = hanging_compiler(tmp_path)
    cache = tmp_path / "cache"
    ran = run(
        "-c", ENDS, tmp_path / "pid", PLIMSOLL_CACHE=str(cache), CXX=shlex.quote(str(compiler))
    )
    assert (ran.returncode, ran.stderr) == (0, BEGUN + "\n")
    pid = int((tmp_path / "pid").read_text())
    assert is_running(pid)
    os.kill(pid, 9)  # then the compiler ends, without an adapter
    wait_until(lambda: list(cache.glob("*/_plimsoll_torch.failed")))


def test_without_a_compiler_nothing_starts(tmp_path):
    program = "import plimsoll; plimsoll.MemoryTracker()"
    ran = run("-c", program, PLIMSOLL_CACHE=str(tmp_path), CXX="/no/compiler")
    assert ran.returncode == 0
    (line,) = ran.stderr.splitlines()
    assert line.startswith("plimsoll: CXX='/no/compiler' is not a program")
    assert line.endswith(KEPT)
    assert not list(tmp_path.glob("*/background.txt"))

"""Plimsoll's messages on stderr, for any stderr and any path."""

import os
import signal
import subprocess
import sys

import pytest

from plimsoll._process.messages import print_lines

PROGRAM = """
import plimsoll
with plimsoll.record("run.plim", adapter="none", overwrite=True): pass
with plimsoll.record("run.plim", adapter="none"): pass
print("goes on", flush=True)
"""


PRINTS = """
import os, plimsoll
with plimsoll.record("run.plim", adapter="none"):
    plimsoll.step()
    try:
        os.write(2, b"a warning of the program's C++ code")
    except OSError:
        pass
assert not any(each["severity"] == "critical" for each in plimsoll.open("run.plim").findings)
assert b"warning" not in open("run.plim", "rb").read()
"""


class Broken:
    def write(self, text):
        raise RuntimeError(text)


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "2>/dev/null"])
def test_if_stderr_accepts_nothing_the_program_continues(redirection, tmp_path):
    words = ["sh", "-c", f'"$0" -c "$1" {redirection}', sys.executable, PROGRAM]
    environment = os.environ | {"PLIMSOLL_MONITOR_NVTX": "ja"}
    ran = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "goes on\n")


def test_the_file_does_not_take_the_place_of_a_closed_stderr(tmp_path):
    words = ["sh", "-c", '"$0" -c "$1" 2>&-', sys.executable, PRINTS]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_an_object_in_place_of_stderr_may_raise(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Broken())
    print_lines("plimsoll: unheard")


def test_what_drives_a_terminal_is_escaped(capsys):
    print_lines("plimsoll: a\nb\x1b[31m\u202e\udcff", "  é 文")
    assert capsys.readouterr().err == "plimsoll: a\\nb\\x1b[31m\\u202e\\udcff\n  é 文\n"


@pytest.mark.slow
def test_a_pipe_without_a_reader_fails_the_start_and_not_the_program(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    program = 'import os; os.environ.update(PLIMSOLL="1", PLIMSOLL_OUT="pipe")\n'
    program += 'os.environ["PLIMSOLL_ADAPTER"] = "none"\nimport torch, plimsoll; print("goes on")'
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout) == (0, "goes on\n")
    assert ran.stderr.startswith("plimsoll: Cannot open '")
    assert ran.stderr.endswith("/pipe': this pipe has no reader; nothing is recorded\n")


SIGNALS_END_THE_PROGRAM = """
import os, resource, signal, sys
for each in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(each, signal.SIG_DFL)
"""
UNREAD = """
ends = os.pipe()
os.dup2(ends[1], 2)
os.close(ends[0]), os.close(ends[1])
"""
MONITORED = """
import io, torch
import plimsoll
open("run.plim", "w").write("taken")
recording = plimsoll.record("run.plim")
try:
    recording.start()  # prints that the name is taken
except OSError:
    pass  # nothing can be written
if recording:
    model = torch.nn.Linear(8, 8)
    with plimsoll.TrainingMonitor(
        enabled=True, tensorboard="board", output_dir="out", alert_above=["1KiB"]
    ) as monitor:
        for i in range(3):
            model(torch.ones(4, 8)).sum().backward()
            monitor.step(i)
    plimsoll.log_tensor_memory_breakdown(None, 1, interval=1, log_file="log.txt")
recording.stop()
print("goes on", flush=True)
"""


def run_python(program, folder, *words, **environment):
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("flag", ["-u", pytest.param("-B", marks=pytest.mark.slow)])
def test_a_stderr_without_a_reader_does_not_end_the_program(flag, tmp_path):
    program = SIGNALS_END_THE_PROGRAM + UNREAD + MONITORED
    ran = subprocess.run(
        [sys.executable, flag, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "goes on\n")


@pytest.mark.slow
def test_a_fifo_as_stderr_without_a_reader_does_not_end_the_program(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    opens = """
reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
os.dup2(os.open("fifo", os.O_WRONLY), 2)
os.close(reader)
"""
    ran = run_python(SIGNALS_END_THE_PROGRAM + opens + MONITORED, tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "goes on\n")


def test_the_program_has_its_signals_after_a_message(tmp_path):
    writes = """
from plimsoll._process.messages import print_lines
print_lines("plimsoll: unread")
assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGPIPE, signal.SIGXFSZ}
os.write(2, b"the program's")
"""
    ran = run_python(SIGNALS_END_THE_PROGRAM + UNREAD + writes, tmp_path)
    assert ran.returncode == -signal.SIGPIPE


@pytest.mark.parametrize(
    ("limit", "when"),
    [
        (10, "before torch"),
        (1000, "after torch"),
        (1000, "while recording"),
        (10**5, "before torch"),
    ],
)
@pytest.mark.slow
def test_a_file_limit_ends_no_program(limit, when, tmp_path):
    lowered = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    places = {
        "before torch": ("import io", f"{lowered}; import io"),
        "after torch": ("import plimsoll", f"import plimsoll; {lowered}"),
        "while recording": ("model =", f"{lowered}; model ="),
    }
    monitored = MONITORED.replace('open("run.plim", "w").write("taken")\n', "")
    program = SIGNALS_END_THE_PROGRAM + monitored.replace(*places[when])
    ran = run_python(program, tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "goes on\n"), ran.stderr


@pytest.mark.slow
def test_a_file_limit_ends_no_program_that_compiles_the_adapter(tmp_path):
    lowered = "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))\n"  # torch itself writes 4 bytes
    program = (
        SIGNALS_END_THE_PROGRAM
        + lowered
        + MONITORED.replace('open("run.plim", "w").write("taken")', "")
    )
    cache = str(tmp_path / "cache")
    ran = run_python(program, tmp_path, PLIMSOLL_CACHE=cache, CXX="false")
    assert (ran.returncode, ran.stdout) == (0, "goes on\n"), ran.stderr

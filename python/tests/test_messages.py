"""What Plimsoll prints on stderr, whatever stderr is and whatever a path contains."""

import os
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
def test_where_stderr_takes_nothing_the_program_goes_on(redirection, tmp_path):
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


def test_a_pipe_that_nobody_reads_ends_the_start_and_not_the_program(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    program = 'import os; os.environ.update(PLIMSOLL="1", PLIMSOLL_OUT="pipe")\n'
    program += 'os.environ["PLIMSOLL_ADAPTER"] = "none"\nimport torch, plimsoll; print("goes on")'
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, "goes on\n")
    assert ran.stderr.startswith("plimsoll: Cannot open '")
    assert ran.stderr.endswith("/pipe': nobody reads this pipe; nothing is recorded\n")

"""With invalid environment variables, the program runs and stderr names them."""

import os
import subprocess
import sys

import pytest

ODD = ["²", "-1", "1e3", "9" * 30, "9" * 5000, "x y", "\x1b[31m", "\udcff", "ja", "None", "0x10"]
CHECKED = ["MAX_EVENTS", "MODE", "STACKS", "IN_CHILDREN", "ADAPTER"]


def run(code, tmp_path, **variables):
    environment = {key: value for key, value in os.environ.items() if "PLIMSOLL" not in key}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("variable", CHECKED)
def test_what_cannot_be_understood_is_named_and_the_program_runs(variable, tmp_path):
    # One process for all values: this repeats what __init__ does at import.
    code = f"""
import os, sys, plimsoll
from plimsoll._command.environment import begin_as_environment_says
for value in {ODD!r}:
    os.environ["PLIMSOLL_{variable}"] = value
    print("asked", file=sys.stderr)
    begin_as_environment_says()
print("goes on")
"""
    ran = run(code, tmp_path)
    assert (ran.returncode, ran.stdout) == (0, "goes on\n"), ran.stderr
    reported = ran.stderr.split("asked\n")[1:]
    for value, line in zip(ODD, reported, strict=True):
        assert line.startswith(f"plimsoll: PLIMSOLL_{variable}={value!r} "), line
        assert line.endswith("; nothing is recorded\n")
        assert line.count("\n") == 1
    assert "\x1b" not in ran.stderr
    assert not list(tmp_path.iterdir())


def test_the_import_itself_continues(tmp_path):
    code = "import plimsoll; print('goes on')"
    ran = run(code, tmp_path, PLIMSOLL="1", PLIMSOLL_MAX_EVENTS="²")
    assert (ran.returncode, ran.stdout) == (0, "goes on\n")
    assert ran.stderr == (
        "plimsoll: PLIMSOLL_MAX_EVENTS='²' is not a whole number; nothing is recorded\n"
    )


def test_a_recording_begins_with_any_nvtx_variable(tmp_path):
    code = f"""
import os, sys, plimsoll
for value in {ODD!r}:
    os.environ["PLIMSOLL_MONITOR_NVTX"] = value
    print("asked", file=sys.stderr)
    with plimsoll.record("run.plim", adapter="none", overwrite=True) as recording:
        pass
    assert recording.state["error"] == 0
"""
    ran = run(code, tmp_path)
    assert ran.returncode == 0, ran.stderr
    for value, line in zip(ODD, ran.stderr.split("asked\n")[1:], strict=True):
        name = f"PLIMSOLL_MONITOR_NVTX={value!r}"
        assert line == f"plimsoll: {name} is ignored: it must be true or false\n"


@pytest.mark.parametrize("variable", ["RANK", "LOCAL_RANK", "WORLD_SIZE", "PLIMSOLL_LIVE"])
def test_ranks_of_any_form_stop_no_recording(variable, tmp_path):
    code = f"""
import os, plimsoll
for value in {ODD!r}:
    os.environ["{variable}"] = value
    with plimsoll.record(adapter="none") as recording:
        pass
    assert os.path.getsize(recording.path) > 0
"""
    ran = run(code, tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr

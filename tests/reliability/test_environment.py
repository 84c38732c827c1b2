"""Invalid values of each environment variable that Plimsoll reads.

A recorded program prints the same and ends the same way; a command fails with one sentence. One of
five cases runs, or all with PLIMSOLL_TEST_EVERY=1. tests/fences/test_environment_variables.py fails
if the source reads a variable that has no case here.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from plimsoll._record import monitor_options_help

# Variables that a recorded program reads.
RECORDED = {
    *("PLIMSOLL", "PLIMSOLL_OUT", "PLIMSOLL_MODE", "PLIMSOLL_STACKS", "PLIMSOLL_MAX_EVENTS"),
    *("PLIMSOLL_SOURCE_TEXT", "PLIMSOLL_USES", "PLIMSOLL_FLEET", "PLIMSOLL_ATTRIBUTION"),
    *("PLIMSOLL_IN_CHILDREN", "PLIMSOLL_ADAPTER", "PLIMSOLL_RUN_LOG", "PLIMSOLL_CACHE"),
    *("PLIMSOLL_LIVE", "PLIMSOLL_LIVE_FOLDER", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "CXX"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "NVTX_INJECTION64_PATH", "HOME"),
}
# Variables that the command reads, with arguments that make it read them.
COMMANDS = {
    "NO_COLOR": ["report", "RECORDING"],
    "TERM": ["report", "RECORDING"],
    "PLIMSOLL_LIVE_FOLDER": ["top", "--once"],
    "XDG_RUNTIME_DIR": ["top", "--once"],
    "TMPDIR": ["run", "--", "/bin/true"],
    "PATH": ["nsys", "--", "/bin/true"],
    "PLIMSOLL_PYTHON": ["run", "script.py"],
    "PLIMSOLL_OUT": ["run", "script.py"],
    "PLIMSOLL_CUDA_LIBRARY": ["run", "--cuda-driver", "--", "/bin/true"],
}
PREFIX = "PLIMSOLL_MONITOR_"

# ---- programs that are recorded ------------------------------------------------------------------

ODD = [
    *("", " ", "²", "-1", str(2**70), "9" * 5000, "\udcff\udcfe", "\x1b[31mred", "a\nb", "'"),
    *("/dev/full", "FIFO", "FOLDER", "FOLDER/absent/x"),
]
# On stderr, without a usable cache and compiler: the cache, the compilation, its failure, the log
# and the recording.
MOST_LINES = 5


def odd_values(tmp_path):
    fifo = tmp_path / "fifo"
    if not fifo.exists():
        os.mkfifo(fifo)
    folder = str(tmp_path / "folder")
    (tmp_path / "folder").mkdir(exist_ok=True)
    return [each.replace("FIFO", str(fifo)).replace("FOLDER", folder) for each in ODD]


def assert_readable(text):
    assert "Traceback" not in text
    assert text.replace("\n", "").isprintable(), text
    assert len(text.splitlines()) <= MOST_LINES, text


def run_recorded(cases):
    ran = subprocess.run(
        [sys.executable, Path(__file__).with_name("odd_environment.py")],
        input=json.dumps(cases),
        # As in `faults`: in a forked child, MKL's memory manager may spin in a lock forever.
        env=os.environ | {"MKL_DISABLE_FAST_MM": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def assert_as_unrecorded(row):
    found, plain = row["recorded"], row["plain"]
    assert (found["status"], found["out"]) == (plain["status"], plain["out"]), row
    assert_readable(found["err"])


def test_a_recorded_program_runs_as_before(tmp_path):
    cases = [[name, value] for name in sorted(RECORDED) for value in odd_values(tmp_path)]
    cases.remove(["CXX", ""])  # the same as unset: the adapter is compiled
    cases.remove(["CXX", " "])
    cases = cases[:: int(os.environ.get("PLIMSOLL_TEST_EVERY", "5"))]
    rows = run_recorded(cases)
    assert len(rows) == len(cases)
    for row in rows:
        assert_as_unrecorded(row)


def test_options_of_a_monitor_are_named_before_training(tmp_path):
    names = [PREFIX + name.upper() for name, *_ in monitor_options_help()]
    assert len(names) > 20
    free_text = [PREFIX + each for each in ("OUTPUT_DIR", "TENSORBOARD", "SECTION", "RECORD")]
    odd, control = "²\x1b[31m\udcff", "²\x1b[31m"
    rows = run_recorded([[name, odd] for name in names] + [[name, control] for name in free_text])
    for row in rows:
        assert_as_unrecorded(row)
        is_refused = row["variable"] in row["recorded"]["err"]
        assert is_refused == (row["value"] == odd), row


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "run.plim"
    code = f"import plimsoll, torch\nwith plimsoll.record({str(path)!r}): torch.ones(9)"
    subprocess.run([sys.executable, "-c", code], check=True)
    return path


def run_command(plimsoll_command, words, folder, **variables):
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PLIMSOLL")}
    return subprocess.run(
        [plimsoll_command, *words],
        env=usual | variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="backslashreplace",
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("variable", sorted(COMMANDS))
def test_a_command_succeeds_or_fails_in_one_sentence(
    variable, plimsoll_command, recording, tmp_path
):
    (tmp_path / "script.py").write_text("print('runs')\n")
    words = [str(recording) if word == "RECORDING" else word for word in COMMANDS[variable]]
    for value in odd_values(tmp_path):
        ran = run_command(plimsoll_command, words, tmp_path, **{variable: value})
        assert ran.returncode in (0, 2), (value, ran)
        assert "Traceback" not in ran.stderr
        assert ran.stderr.replace("\n", "").isprintable(), ran.stderr
        assert ran.stderr.count("\n") <= 1, ran.stderr
        if ran.returncode != 0:
            assert ran.stderr.startswith("plimsoll"), ran.stderr

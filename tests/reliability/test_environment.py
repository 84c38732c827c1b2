"""Invalid values of each environment variable that Plimsoll reads.

The variables are found in the source; the first test fails if one has no case here. A recorded
program prints the same and ends the same way; a command fails with one sentence. One of five cases
runs, or all with PLIMSOLL_TEST_EVERY=1.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from plimsoll._record import monitor_options_help

ROOT = Path(__file__).parents[2]

# Variables that a recorded program reads.
RECORDED = {
    *("PLIMSOLL", "PLIMSOLL_OUT", "PLIMSOLL_MODE", "PLIMSOLL_STACKS", "PLIMSOLL_MAX_EVENTS"),
    "PLIMSOLL_SOURCE_TEXT",
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
ELSEWHERE = {
    "DISPLAY": "plimsoll demo reads it if stdout is a terminal",
    "WAYLAND_DISPLAY": "plimsoll demo reads it if stdout is a terminal",
    "LD_PRELOAD": "the dynamic linker reads it before Plimsoll runs",
    "CUDA_HOME": "read where torch's CUDA build is installed",
    "CUDA_PATH": "read where torch's CUDA build is installed",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "read where torch's CUDA build is installed",
    "PYTHONPATH": "Python reads it; the launcher passes it on",
    "PLIMSOLL_RUN_OPTIONS": "the launcher sets it for the Python that it starts",
    "PLIMSOLL_RUN_PYTHONPATH": "the launcher sets it for the Python that it starts",
    "PLIMSOLL_TRY_OUT": "set for the process that tries out a new adapter",
    "PLIMSOLL_TRY_OUT_NAME": "set for the process that tries out a new adapter",
    "PLIMSOLL_CUDA_PROCESSES": "plimsoll run --cuda-driver sets it for the program",
    "PLIMSOLL_CUDA_OUT": "tests/e2e/test_cuda_driver.py",
}
PREFIX = "PLIMSOLL_MONITOR_"

# ---- the variables of the source -----------------------------------------------------------------

READERS = (
    r"getenv\(\s*",
    r"environb?(?:\.get|\.pop|\.setdefault)\(\s*",
    r"environb?\[\s*",
    # Plimsoll's functions that read the variable passed to them.
    r"\b(?:variable|quoted|is_set|from_environment|number_of_environment|number_in_environment"
    r"|_choice)\(\s*",
)
# Readers whose argument is not a literal, by file: the functions above, and loops over literals.
INDIRECT = {
    "src/base/launcher.h": 1,
    "src/record/environment.cc": 1,
    "src/cli/terminal.cc": 1,
    "src/cli/nsys_command.cc": 1,  # PLIMSOLL_MONITOR_NVTX
    "adapters/cuda_driver/registry.cc": 1,
    "python/plimsoll/_command/environment.py": 1,
    "python/plimsoll/_command/launch.py": 1,
    "python/plimsoll/_start/next_program.py": 1,
    "python/plimsoll/_process/paths.py": 1,  # RANK, LOCAL_RANK
    "python/plimsoll/_cuda/cuda_adapter.py": 2,  # CUDA_HOME and CUDA_PATH
}


def sources():
    for folder in ("src", "adapters", "python/plimsoll", "python/bindings", "include"):
        for path in sorted((ROOT / folder).rglob("*")):
            is_test = path.name.endswith("_test.cc") or "tests" in path.parts
            if path.suffix in {".cc", ".h", ".py"} and not is_test:
                yield path.relative_to(ROOT).as_posix(), path.read_text()


def variables_of_source():
    found, indirect = set(), {}
    for path, text in sources():
        for reader in READERS:
            for match in re.finditer(reader + r'(?:b?["\'](\w+)["\'])?', text):
                is_library = re.match(r"(?:std::)?getenv|environ", match[0]) is not None
                if match[1] is not None:
                    found.add(match[1])
                elif is_library:
                    indirect[path] = indirect.get(path, 0) + 1
        # A loop over names, or a name that is passed on.
        found |= set(re.findall(r'["\'](PLIMSOLL(?:_[A-Z0-9]+)*)["\']', text))
    return found - {
        name for name in found if name.startswith(PREFIX) or "LIBTORCH" in name
    }, indirect


def test_each_variable_that_the_source_reads_has_a_case():
    found, indirect = variables_of_source()
    known = RECORDED | set(COMMANDS) | set(ELSEWHERE)
    assert {name for name in found if name.isupper()} - known == set()
    assert indirect == INDIRECT


# ---- programs that are recorded ------------------------------------------------------------------

ODD = [
    *("", " ", "²", "-1", str(2**70), "9" * 5000, "\udcff\udcfe", "\x1b[31mred", "a\nb", "'"),
    *("/dev/full", "FIFO", "FOLDER", "FOLDER/absent/x"),
]
MOST_LINES = 4  # on stderr


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

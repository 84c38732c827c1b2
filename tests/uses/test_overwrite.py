"""The overwrite proof: overwriting memory after its last recorded use changes no result.

`python -m tests.uses.test_overwrite` prints a line for each group of programs, and the sum.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
COMMAND = Path(sys.executable).with_name("plimsoll")
IDENTICAL = re.compile(r"identical: ([\d,]+) storages?, ([\d.]+ \w+) were overwritten")
GROUP = 16  # programs in one process

GATE = (
    "uses/checkpointed",
    "uses/saved_tensors_packed",
    "uses/hooks_of_modules_and_tensors",
    "uses/views_and_updates_in_place",
    "uses/read_without_an_operator",
    "mlp/plain",
    "kept/pool_of_generated",
)


def verify(
    *words: object, standard_input: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "verify", *map(str, words)],
        input=standard_input,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | environment,
    )


@functools.cache
def groups() -> list[list[str]]:
    listed = subprocess.run(
        [sys.executable, "-m", "tests.uses.programs", "--list"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout.split()
    return [listed[i : i + GROUP] for i in range(0, len(listed), GROUP)]


def is_identical(*words: object, **environment: str) -> tuple[bool, str]:
    done = verify(*words, **environment)
    return bool(done.returncode == 0 and IDENTICAL.match(done.stdout)), done.stdout + done.stderr


def test_programs_of_many_kinds_are_identical():
    same, text = is_identical("-m", "tests.uses.programs", *GATE)
    assert same, text


@pytest.mark.slow
def test_all_programs_are_identical():
    failed = {}
    for names in groups():
        same, text = is_identical("-m", "tests.uses.programs", *names)
        if not same:
            failed[tuple(names)] = text
    assert not failed


@pytest.fixture
def script(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "program.py"
        path.write_text("import torch\ntorch.manual_seed(0)\n" + textwrap.dedent(text))
        return path

    return write


def test_a_read_without_an_operator_is_found(script):
    """The program takes the address from torch's own object: no function hands it out."""
    path = script("""
        import ctypes
        hidden = torch.ones(1000)
        storage = (ctypes.c_uint64 * 3).from_address(hidden.untyped_storage()._cdata)
        kept = [torch.ones(10) for _ in range(20)]
        print(ctypes.c_float.from_address(storage[2]).value)
        """)
    done = verify(path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the standard output differs" in done.stdout
    assert re.search(r"first storage: allocation [\d,]+, 3\.9 KiB, at .*program.py:5", done.stdout)


def test_a_program_without_a_seed_is_not_compared(script):
    path = script("torch.seed()\nprint(torch.rand(3).sum().item())")
    done = verify(path)
    assert done.returncode == 2
    assert "the program itself isn't reproducible: set a seed" in done.stderr


def test_results_that_alternate_blame_no_storage(script, tmp_path):
    """Like a program that resumes from its own checkpoint every other time."""
    path = script(f"""
        import os
        checkpoint = {str(tmp_path / "checkpoint")!r}
        kept = [torch.ones(10).sum() for _ in range(20)]
        if os.path.exists(checkpoint):
            os.remove(checkpoint)
            print("resumed")
        else:
            open(checkpoint, "w").close()
        """)
    done = verify(path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be compared: a repeated run has another result" in done.stderr


def test_each_run_reads_the_same_input(script, tmp_path):
    log = tmp_path / "log"
    path = script(f"""
        import sys
        print(sys.stdin.read(), file=open({str(log)!r}, "a"), end="")
        x = torch.ones(10)
        """)
    done = verify(path, standard_input="text\n")
    assert done.returncode == 0, done.stderr
    assert log.read_text() == "text\ntext\n"


def test_the_error_of_a_program_that_records_nothing_is_one_line(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import no_such_module")
    done = verify(path)
    assert done.returncode == 2
    assert re.fullmatch(
        r"plimsoll: nothing was recorded: ModuleNotFoundError: .*no_such_module.*\n", done.stderr
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_verify_in_its_second_run(script, tmp_path, number):
    log = tmp_path / "log"
    path = script(f"""
        import os, time
        x = torch.ones(10)
        print(os.getpid(), file=open({str(log)!r}, "a"))
        if "PLIMSOLL_OVERWRITE" in os.environ:
            time.sleep(600)
        """)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    log.touch()
    command = subprocess.Popen(
        [COMMAND, "verify", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    wait_until(lambda: len(log.read_text().split()) == 2)
    command.send_signal(number)
    out, errors = command.communicate()
    assert (command.returncode, out, errors) == (130, "", "plimsoll: interrupted\n")
    second = log.read_text().split()[1]
    assert not (Path("/proc") / second).exists()
    assert not list(scratch.iterdir())


def test_allocations_of_other_sizes_are_reported(script):
    path = script("""
        import os
        print("same")
        x = torch.ones(10 + 5 * ("PLIMSOLL_OVERWRITE" in os.environ))
        """)
    done = verify(path)
    assert done.returncode == 2
    assert re.search(
        r"cannot be compared: allocation 1, at .*program.py:6.* has 60 bytes instead "
        r"of 40",
        done.stderr,
    )


def test_the_exit_status_is_compared(script):
    path = script("x = torch.ones(10)\nraise SystemExit(3)")
    same, text = is_identical(path)
    assert same, text


def test_a_program_that_fails_is_not_identical(script):
    done = verify(script("x = torch.ones(10)\nraise RuntimeError('no data')"))
    assert done.returncode == 2
    assert done.stderr.endswith("nothing to compare: RuntimeError: no data\n")


def test_options_of_run_are_refused():
    done = verify("-o", "x.plim", "train.py")
    assert done.returncode == 2
    assert "-o is an unknown option of plimsoll verify" in done.stderr


def main() -> None:
    for names in groups():
        same, text = is_identical("-m", "tests.uses.programs", *names)
        found = IDENTICAL.search(text)
        result = " ".join(found.groups()) if found else text.strip()
        print(
            f"{'identical' if same else 'DIFFERENT'} {len(names)} {names[0]}…{names[-1]}: {result}",
            flush=True,
        )


if __name__ == "__main__":
    main()

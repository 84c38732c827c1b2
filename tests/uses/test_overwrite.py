"""The overwrite proof: overwriting memory after its last recorded use changes no result.

`python -m tests.uses.test_overwrite` prints a line for each group of programs, and the sum.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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


def verify(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "verify", *map(str, words)],
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

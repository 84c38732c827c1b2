"""plimsoll prepare: compiles the adapters ahead of the first recording."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import plimsoll

PREPARE = Path(plimsoll.__file__).parent / "_command/prepare.py"


def prepare(*options: str, **variables: str) -> subprocess.CompletedProcess:
    package = {"PYTHONPATH": str(PREPARE.parents[2])}
    return subprocess.run(
        [sys.executable, *options, PREPARE],
        env=os.environ | package | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_adapter_is_compiled_once_and_its_place_is_printed():
    prepare()
    ran = prepare()
    assert (ran.returncode, ran.stderr) == (0, "")
    begin, path = ran.stdout.splitlines()[0].split(": ")
    assert begin == f"adapter for torch {torch.__version__}"
    assert Path(path).is_file()


def test_without_a_compiler_it_fails_with_the_reason(tmp_path):
    ran = prepare(CXX="/no/compiler", PLIMSOLL_CACHE=str(tmp_path / "empty"))
    assert ran.returncode == 1
    assert ran.stderr.startswith("plimsoll: adapter: CXX='/no/compiler' is not a program")
    assert ran.stdout == ""


def test_without_torch_prepare_fails_with_the_reason():
    ran = prepare("-I", "-S")  # finds no packages
    assert ran.returncode == 1
    assert "torch is not installed" in ran.stderr

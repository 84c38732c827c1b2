"""Two processes and one trace file."""

import os
import subprocess
import sys

import pytest

import plimsoll
from plimsoll import _record
from plimsoll._claim import Claim

OTHER = """
import plimsoll, sys
with plimsoll.record(sys.argv[1], adapter="none") as recording:
    print(recording.path)
"""


def other_process(path) -> tuple[str, str]:
    ran = subprocess.run(
        [sys.executable, "-c", OTHER, str(path)], capture_output=True, text=True, check=True
    )
    return ran.stdout.strip(), ran.stderr


def test_a_second_process_records_into_a_file_of_its_own(tmp_path):
    path = tmp_path / "run.plim"
    with plimsoll.record(path, adapter="none") as recording:
        _record.alloc(_record.device("cpu", 0), 4096, 64)
        theirs, said = other_process(path)
    assert theirs.startswith(f"{path}.")
    assert f"another process records into {path}" in said
    assert plimsoll.open(recording.path).report["source"]["events"] == 1
    assert other_process(path)[0] == str(path)  # nobody records into it any more


def test_one_process_is_still_refused(tmp_path):
    path = tmp_path / "run.plim"
    with plimsoll.record(path, adapter="none"):
        with pytest.raises(OSError, match="Another recording"):
            plimsoll.record(path, adapter="none").start()
        assert other_process(path)[0] != str(path)


def test_a_claim_ends_though_a_forked_child_has_inherited_it(tmp_path):
    claim = Claim(str(tmp_path / "run.plim"))
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)  # until it is killed
    claim.release()
    assert Claim(str(tmp_path / "run.plim")).path == str(tmp_path / "run.plim")
    os.kill(child, 9)
    os.waitpid(child, 0)


def test_what_is_no_regular_file_is_not_locked(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", str(tmp_path / "pipe"), str(tmp_path / "nowhere/run.plim")):
        claim = Claim(path)
        assert claim.path == path
        claim.release()

"""A recording always gets a new file, whoever requests the name and whatever exists there."""

import os
import re
import subprocess
import sys

import pytest

import plimsoll
from plimsoll import _record

OTHER = """
import plimsoll, sys
with plimsoll.record(sys.argv[1], adapter="none") as recording:
    print(recording.path)
"""
PARENT = """
import os, subprocess, sys, torch, plimsoll
x = torch.ones(1000)
subprocess.run([sys.executable, "-c", "import torch, plimsoll; torch.ones(5)"], check=True)
y = torch.ones(2000)
"""


def other_process(path) -> tuple[str, str]:
    ran = subprocess.run(
        [sys.executable, "-c", OTHER, str(path)], capture_output=True, text=True, check=True
    )
    return ran.stdout.strip(), ran.stderr


def record_bytes(path, size_bytes: int, **options: bool) -> str:
    with plimsoll.record(path, adapter="none", **options) as recording:
        _record.alloc(_record.device("cpu", 0), 4096, size_bytes)
        _record.free(_record.device("cpu", 0), 4096)
    return recording.path


def peak(path) -> int:
    (device,) = plimsoll.open(path).report["devices"]
    return device["requested_active"]["peak_bytes"]


def test_a_second_process_records_into_a_separate_file(tmp_path):
    path = tmp_path / "run.plim"
    with plimsoll.record(path, adapter="none") as recording:
        _record.alloc(_record.device("cpu", 0), 4096, 64)
        theirs, said = other_process(path)
    assert theirs == str(tmp_path / "run.2.plim")
    assert said == f"plimsoll: {path} exists; this run is recorded into {theirs}\n"
    assert plimsoll.open(recording.path).report["source"]["events"] == 1


def test_an_earlier_trace_is_kept_unless_it_may_be_overwritten(tmp_path, capsys):
    path = tmp_path / "run.plim"
    assert record_bytes(path, 1) == str(path)
    assert record_bytes(path, 2) == str(tmp_path / "run.2.plim")
    assert f"{path} exists; this run is recorded into {tmp_path}/run.2.plim" in (
        capsys.readouterr().err
    )
    assert peak(path) == 1
    assert record_bytes(path, 3, overwrite=True) == str(path)
    assert [peak(path), peak(tmp_path / "run.2.plim")] == [3, 2]


def test_a_file_that_is_not_a_trace_is_never_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("my thesis")
    (tmp_path / "link.plim").symlink_to(tmp_path / "thesis.tex")
    for overwrite in (False, True):
        for name in ("thesis.tex", "link.plim"):
            assert record_bytes(tmp_path / name, 1, overwrite=overwrite) != str(tmp_path / name)
    assert (tmp_path / "thesis.tex").read_text() == "my thesis"


def test_two_recordings_of_one_process_have_two_files(tmp_path):
    path = tmp_path / "run.plim"
    with plimsoll.record(path, adapter="none"):
        assert record_bytes(path, 7, overwrite=True) == str(tmp_path / "run.2.plim")


def test_a_forked_child_does_not_keep_the_trace_locked(tmp_path):
    path = tmp_path / "run.plim"
    recording = plimsoll.record(path, adapter="none").start()
    child = os.fork()
    if child == 0:
        os.read(os.pipe()[0], 1)  # until it is killed
    recording.stop()
    assert record_bytes(path, 3, overwrite=True) == str(path)
    os.kill(child, 9)
    os.waitpid(child, 0)


@pytest.mark.slow
def test_subprocesses_that_inherit_the_variables_leave_the_parents_trace(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", PARENT],
        cwd=tmp_path,
        env=os.environ | {"PLIMSOLL": "1", "PLIMSOLL_OUT": "run.plim"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(re.findall("to see it: plimsoll report", ran.stderr)) == 2
    assert peak(tmp_path / "run.plim") >= 12_000
    assert peak(tmp_path / "run.2.plim") < 12_000


def test_devices_and_pipes_are_written_to_as_they_are(tmp_path):
    assert record_bytes("/dev/null", 1) == "/dev/null"
    (tmp_path / "null.plim").symlink_to("/dev/null")
    assert record_bytes(tmp_path / "null.plim", 1) == str(tmp_path / "null.plim")

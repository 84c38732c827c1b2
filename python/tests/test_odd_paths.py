"""Paths with a zero byte, and a working folder that has been removed."""

import os
import subprocess
import sys

import pytest
import torch

import plimsoll

PROGRAM = """
import os, sys, torch, plimsoll
os.mkdir("gone"); os.chdir("gone"); os.rmdir(os.getcwd())
try:
    plimsoll.record("x.plim")
    raise AssertionError
except FileNotFoundError as error:
    assert "working folder" in str(error), error
model = torch.nn.Linear(3, 3)
with plimsoll.MemoryTracer().trace(model):
    model(torch.zeros(2, 3)).sum().backward()
for options in ({}, {"record": "x.plim"}, {"snapshot_at": "1"}, {"tensorboard": "runs"}):
    with plimsoll.TrainingMonitor(interval=1, **options) as monitor:
        for _ in range(3):
            monitor.step(loss=1.0)
plimsoll.log_tensor_memory_breakdown(None, 1, 1, log_file="x.log")
with plimsoll.region("x"), plimsoll.track_memory("x"):
    plimsoll.step()
"""


def test_a_monitor_works_in_a_removed_folder(tmp_path):
    words = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    assert "working folder has been removed" in ran.stderr


def test_an_invalid_environment_does_not_stop_the_program(tmp_path):
    environment = os.environ | {"PLIMSOLL": "1", "PLIMSOLL_MODE": "fastest"}
    words = [sys.executable, "-c", "import plimsoll; print('goes on')"]
    ran = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "goes on\n"
    assert "nothing is recorded" in ran.stderr


def test_a_zero_byte_is_not_the_end_of_a_path(tmp_path, capsys):
    path = f"{tmp_path}/a\0b"
    with pytest.raises(plimsoll.InvalidArgumentError, match="zero byte"):
        plimsoll.record(path)
    plimsoll.log_tensor_memory_breakdown(None, 1, 1, log_file=path)
    plimsoll.stop_monitoring()
    assert "zero byte" in capsys.readouterr().err
    tracer = plimsoll.MemoryTracer()
    model = torch.nn.Linear(2, 2)
    with tracer.trace(model):
        model(torch.zeros(1, 2))
    for write in (tracer.export_flame_graph, tracer.export_timeline):
        with pytest.raises(plimsoll.InvalidArgumentError, match="zero byte"):
            write(path)
    assert not any(tmp_path.iterdir())

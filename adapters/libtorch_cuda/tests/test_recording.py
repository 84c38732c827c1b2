"""Recording as users do it, on a torch that believes it has CUDA devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MIB = 1 << 20


@pytest.fixture
def run(fake, half, tmp_path):
    def run(case, **environment):
        words = [str(HERE / "program.py"), case, fake._name, "run.plim"]
        ran = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])} | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
        return ran

    return run


def opened(path, **question):
    import plimsoll

    return plimsoll.open(path, **question)


def test_a_device_that_comes_while_recording_is_in_the_trace(run, tmp_path):
    ran = run("late")
    assert ran.stderr == ""
    trace = opened(tmp_path / "run.plim", device="cuda:0", at="end")
    (row,) = trace.tables["by_layer"]
    assert (row["key"], row["bytes"]) == ("Model.block", 3 * MIB)
    (row,) = trace.tables["by_operator"]
    assert row["key"] == "fake::kernel"
    (row,) = trace.tables["by_line"]
    assert "program.py" in row["key"]
    (device,) = [each for each in trace.devices if each["device"] == 0]
    assert device["allocated_bytes_end"] == 3 * MIB
    assert device["reserved"]["end_bytes"] == 20 * MIB


def test_what_lives_before_recording_is_in_the_trace(run, tmp_path):
    run("early")
    trace = opened(tmp_path / "run.plim", at="end")
    ends = {each["device"]: each["allocated_bytes_end"] for each in trace.devices}
    assert (ends[0], ends[1]) == (3 * MIB, 40 * MIB)


def test_recordings_one_after_the_other_see_what_changed_between_them(run, tmp_path):
    run("twice")
    trace = opened(tmp_path / "run.plim", device="cuda:0", at="end")
    assert trace.devices[0]["allocated_bytes_end"] == 3 * MIB


def test_out_of_memory_is_told_before_the_program_goes_on(run, tmp_path):
    ran = run("oom", RANK="3")
    first, *_ = ran.stderr.splitlines()
    assert first == (
        "plimsoll: out of memory on cuda:0 of rank 3: 3.0 MiB asked for, 0 B free of 40.0 MiB"
    )
    assert "asked by     Model.block, fake::kernel, forward, " in ran.stderr
    assert "program.py:" in ran.stderr
    assert "plimsoll report run.plim --at oom" in ran.stderr
    assert ran.stderr.count("asked for") == 3  # of many more
    assert len(ran.stderr.split("plimsoll: out of memory")[1].splitlines()) <= 11
    assert (tmp_path / "run.oom.txt").read_text().count("asked for") == 3
    assert "since step 2" in ran.stderr
    assert "activation +30.0 MiB" in ran.stderr
    details = opened(tmp_path / "run.plim", device="cuda:0").devices[0]["oom_details"][0]
    assert (details["requested_bytes"], details["device_free_bytes"]) == (3 * MIB, 0)
    assert "program.py" in details["line"]


def test_who_holds_the_device_is_told_when_it_is_full(run, drivers, tmp_path):
    script = tmp_path / "nvml"
    script.write_text(
        f"device H100|GPU-{'a' * 8}-{'a' * 4}-{'a' * 4}-{'a' * 4}-{'a' * 12}|"
        f"{64 * MIB}|{54 * MIB}|{5 * MIB}|0\nprocess 4711 compute {50 * MIB}\n"
    )
    ran = run("oom", FAKE_NVML=str(script), FAKE_CUDA="a" * 32, **drivers)
    line = next(line for line in ran.stderr.splitlines() if "whole GPU" in line)
    assert line.startswith("  whole GPU    59.0 MiB of 64.0 MiB used: tensors 36.0 MiB, cached 4.0")
    assert line.endswith(" 10.0 MiB, the driver's own 5.0 MiB, unexplained 4.0 MiB")
    assert len(ran.stderr.split("plimsoll: out of memory")[1].splitlines()) <= 11
    bars = opened(tmp_path / "run.plim", device="cuda:0").devices[0]["bars"]
    assert [bar["moment"] for bar in bars] == ["fullest", "oom"]
    parts = {part["kind"]: part["bytes"] for part in bars[-1]["parts"]}
    assert sum(parts.values()) == bars[-1]["used_bytes"] == 59 * MIB
    assert (parts["tensors"], parts["cached"]) == (36 * MIB, 4 * MIB)
    assert (parts["driver"], parts["unexplained"]) == (5 * MIB, 4 * MIB)


def test_a_program_that_uses_no_device_is_recorded_as_ever(run):
    assert run("never").stderr == ""


def test_an_allocator_that_cannot_be_followed_leaves_torchs_own_history(run, tmp_path):
    ran = run("refused")
    (line,) = ran.stderr.splitlines()
    assert "cudaMallocAsync" in line
    assert "torch's own history" in line
    trace = opened(tmp_path / "run.plim", device="cuda:0", at="end")
    assert trace.report["source"]["format"] == "plimsoll"
    assert "torch_history" in {each["name"] for each in trace.report["source"]["diagnostics"]}
    (row,) = trace.tables["by_line"]
    assert (row["key"], row["bytes"]) == ("train.py:7 (step)", 1000)
    assert trace.devices[0]["oom_details"][0]["requested_bytes"] == 8 * MIB


def test_without_the_adapter_there_is_torchs_own_history(run, tmp_path):
    assert run("python").stderr == ""
    trace = opened(tmp_path / "run.plim", device="cuda:0", at="end")
    assert trace.devices[0]["allocated_bytes_end"] == 1024


@pytest.mark.parametrize(
    ("signature", "wanted"),
    [
        ("(enabled='all', context='all', stacks='all', max_entries=1, device=None)", "stacks"),
        ("(enabled='all', context='all', stacks='all', max_entries=1, skip=None)", "stacks"),
        ("(enabled='all', *args, **kwargs)", "stacks"),
        ("(enabled, record_context=True, trace_alloc_max_entries=1)", "trace_alloc_max_entries"),
    ],
)
def test_torchs_history_is_asked_for_as_each_version_takes_it(signature, wanted):
    from plimsoll._cuda_history import arguments

    scope = {}
    exec(f"def _record_memory_history{signature}: pass", scope)
    memory = type("memory", (), {"_record_memory_history": scope["_record_memory_history"]})
    told = arguments(memory)
    assert wanted in told
    if wanted == "stacks":
        scope["_record_memory_history"](**told)
        assert told["stacks"] == "python"


def test_torch_without_cuda_is_left_alone(compiled, tmp_path):
    program = """
import sys
import plimsoll, torch
with plimsoll.record("run.plim"):
    torch.nn.Linear(3, 3)(torch.ones(3)).sum().backward()
queued = len(torch.cuda._queued_calls)
with plimsoll.record("again.plim"):
    torch.ones(3)
assert len(torch.cuda._queued_calls) == queued
assert not [c for c, _ in torch.cuda._queued_calls if "plimsoll" in c.__module__]
for name in ("_cuda_half", "_cuda_history", "_flight"):
    assert f"plimsoll.{name}" not in sys.modules, name
assert "_plimsoll_torch_cuda" not in sys.modules
assert not torch.cuda.is_initialized()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")

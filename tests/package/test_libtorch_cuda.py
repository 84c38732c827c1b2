"""plimsoll::libtorch_cuda: MemoryTracer on a CUDA device, in C++."""

import os
import re
import subprocess
from collections import Counter

import pytest

import plimsoll

PARAMETERS = {"Net.0": 4 * (256 * 512 + 512), "Net.2": 4 * (512 * 256 + 256)}


def run(*words, **how) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, **how)


def losses(text: str) -> list[str]:
    return re.findall(r"^loss (.*)$", text, re.MULTILINE)


def held(text: str) -> tuple[int, int]:
    found = re.search(r"^allocated (\d+) reserved (\d+)$", text, re.MULTILINE)
    return int(found[1]), int(found[2])


@pytest.fixture(scope="module")
def untraced(libtorch_programs) -> str:
    ran = run(libtorch_programs / "cuda_program")
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.fixture(scope="module", params=["", "late", "lite", "late lite"])
def traced(request, libtorch_programs, tmp_path_factory):
    """The arguments of the program, its output, and its trace."""
    path = tmp_path_factory.mktemp("cuda") / "run.plim"
    words = request.param.split()
    environment = os.environ | ({"FAKE_CUDA_IS_LATE": "1"} if "late" in words else {})
    ran = run(libtorch_programs / "cuda_program", path, *words, "results", env=environment)
    assert (ran.returncode, ran.stderr) == (0, "")
    return set(words), ran.stdout, plimsoll.open(path, device="cuda:0")


def live_at_end(trace: plimsoll.Trace) -> list[dict]:
    live = {}
    events = trace.events.to_pydict()
    rows = (dict(zip(events, row, strict=True)) for row in zip(*events.values(), strict=True))
    for event in rows:
        if event["device"] == "cuda:0" and event["action"] == "alloc":
            live[event["address"]] = event
        elif event["device"] == "cuda:0" and event["action"].startswith("free"):
            live.pop(event["address"], None)
    return list(live.values())


def by_category(trace: plimsoll.Trace) -> Counter:
    sums: Counter = Counter()
    for event in live_at_end(trace):
        sums[event["category"]] += event["size_bytes"]
    return sums


def test_tracing_changes_no_result(traced, untraced):
    _, text, _ = traced
    assert losses(text) == losses(untraced)
    assert held(text) == held(untraced)


def test_the_sums_are_the_allocators(traced):
    _, text, trace = traced
    device = next(each for each in trace.devices if each["device"] == 0)
    assert (device["allocated_bytes_end"], device["reserved"]["end_bytes"]) == held(text)


def test_each_byte_has_its_category(traced):
    _, _, trace = traced
    found = by_category(trace)
    parameters = sum(PARAMETERS.values())
    assert found["parameter"] == found["gradient"] == parameters
    assert found["input"] == 4 * 64 * 256
    assert found["optimizer_state"] == 2 * parameters
    assert sum(found.values()) == 4 * parameters + found["input"], found


def test_the_queries_return_the_device(traced):
    words, text, _ = traced
    layers = {
        name: (int(peak), int(parameters))
        for name, peak, parameters in re.findall(r"^layer (\S+) (\d+) (\d+)$", text, re.MULTILINE)
    }
    for layer, parameter_bytes in PARAMETERS.items():
        assert layers[layer][1] == parameter_bytes
        # Lite mode observes no operators, so the activation is not in the layer.
        if "lite" not in words:
            assert layers[layer][0] >= parameter_bytes + 4 * 64 * 256
    assert "error" not in text


def test_a_program_without_the_cuda_adapter_reports_it(libtorch_programs, untraced):
    ran = run(libtorch_programs / "cuda_program_without_adapter", "memory")
    assert losses(ran.stdout) == losses(untraced)
    assert (
        "error CUDA memory is not recorded: the program is not linked with plimsoll::libtorch_cuda"
        in ran.stdout
    )


@pytest.mark.parametrize("late", [False, True])
def test_an_unchanged_program_is_recorded(
    libtorch_programs, plimsoll_command, untraced, tmp_path, late
):
    path = tmp_path / "run.plim"
    environment = os.environ | ({"FAKE_CUDA_IS_LATE": "1"} if late else {})
    program = libtorch_programs / "cuda_program"
    ran = run(plimsoll_command, "run", "-o", path, "--", program, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert losses(ran.stdout) == losses(untraced)
    trace = plimsoll.open(path, device="cuda:0")
    device = next(each for each in trace.devices if each["device"] == 0)
    # At the end of the program the model has been freed, and the cache keeps the segments.
    assert device["reserved"]["end_bytes"] == held(ran.stdout)[1]
    assert device["requested_allocated"]["peak_bytes"] >= 4 * sum(PARAMETERS.values())


def test_an_allocator_of_the_programs_own_is_reported(libtorch_programs, untraced):
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    ran = run(libtorch_programs / "cuda_program", "memory", env=environment)
    assert losses(ran.stdout) == losses(untraced)
    assert "error CUDA memory is not recorded: PYTORCH_NO_CUDA_MEMORY_CACHING is set" in ran.stdout
    assert ran.stderr.startswith("plimsoll: CUDA memory is not recorded: PYTORCH_NO_CUDA")
    assert ran.stderr.count("\n") == 1

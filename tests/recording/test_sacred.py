"""A program observes the same with and without a recording, exact to the bit."""

import ctypes.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODES = ["full", "lite", "fallback", "monitor", "monitor-fallback", "tracer"]
# The effects of any dispatch mode and of global hooks (docs/recording.md).
CHANGED_BY_FALLBACK = {
    "derivatives_that_depend_on_dispatch_modes": "result",
    "compiled_models": "warnings",  # torch warns about global hooks
}


def seen(mode, folder, **variables):
    words = [sys.executable, "-m", "tests.recording.sacred_programs", mode, str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"} | variables
    ran = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """The observations of the programs, by mode; run in two processes at a time."""
    with ThreadPoolExecutor(2) as pool:
        running = {
            mode: pool.submit(seen, mode, tmp_path_factory.mktemp(mode))
            for mode in ["none", *MODES]
        }
    return running


def assert_same(unrecorded, recorded, mode):
    assert list(recorded) == list(unrecorded)
    for name, expected in unrecorded.items():
        left_out = CHANGED_BY_FALLBACK.get(name) if "fallback" in mode else None
        for what in expected.keys() - {left_out}:
            assert recorded[name][what] == expected[what], (name, what)


@pytest.mark.parametrize("mode", MODES)
def test_a_program_observes_no_recording(mode, observed):
    assert_same(observed["none"].result(), observed[mode].result(), mode)


@pytest.mark.parametrize("names", [["jemalloc"], ["tcmalloc", "tcmalloc_minimal"]], ids=str)
def test_a_program_on_another_allocator_observes_no_recording(names, tmp_path):
    found = [ctypes.util.find_library(name) for name in names]
    library = next((each for each in found if each is not None), None)
    if library is None:
        pytest.skip(f"{names[0]} is not installed")
    unrecorded, recorded = (seen(mode, tmp_path, LD_PRELOAD=library) for mode in ("none", "full"))
    assert_same(unrecorded, recorded, "full")


BEGINS_WITHIN_MODES = """
import sys, torch, plimsoll
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

class Functions(TorchFunctionMode):
    seen = []
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))

model = torch.nn.Linear(2, 2)
torch.set_default_device("meta")
with Functions(), FakeTensorMode(), torch.inference_mode():
    plimsoll.record(sys.argv[1], adapter=sys.argv[2]).start().stop()
assert Functions.seen == [], Functions.seen
"""


@pytest.mark.parametrize("adapter", ["libtorch", "python"])
def test_a_recording_begins_within_modes_of_the_program(adapter, tmp_path):
    words = [sys.executable, "-c", BEGINS_WITHIN_MODES, tmp_path / "run.plim", adapter]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]

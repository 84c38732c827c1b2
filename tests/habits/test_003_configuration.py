"""The monitors of a training loop: the habits of users who configure them."""

import re
from pathlib import Path

import pytest
import torch
from habit_models import make
from printed_lines import NUMBER, USAGE

import plimsoll
from plimsoll import (
    BatchMemoryProfiler,
    track_memory,
)

ROOT = Path(__file__).resolve().parents[2]
# Configuration ------------------------------------------------------------------------------------


def options_of(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return plimsoll.load_options(str(path))


def test_the_two_lines_of_a_trainers_configuration(tmp_path):
    options = options_of(
        tmp_path,
        """\
trainer_params:
  enable_memory_monitoring: true  # on
  memory_monitor_batches: 3
""",
    )
    assert options.enabled
    assert options.verbose_batches == 3
    off = options_of(tmp_path, "trainer_params:\n  enable_memory_monitoring: false\n")
    assert not off.enabled
    assert not options_of(tmp_path, "trainer_params:\n  batch_size: 16\n").enabled


def test_other_lines_of_such_a_configuration_are_the_programs(tmp_path):
    options = options_of(
        tmp_path,
        """\
trainer_params:
  batch_size: 16
  gradient_accumulation_steps: 2
  use_amp: true
  enable_memory_monitoring: true
  memory_monitor_batches: 5
data:
  max_cached_sims: 5
  pin_memory: true
""",
    )
    assert options.enabled
    assert options.verbose_batches == 5


@pytest.mark.parametrize("kind", ["dict", "omegaconf"])
def test_configurations_in_memory(kind):
    config = {"trainer_params": {"enable_memory_monitoring": True, "memory_monitor_batches": 2}}
    if kind == "omegaconf":
        config = pytest.importorskip("omegaconf").OmegaConf.create(config)
    options = plimsoll.load_options(config)
    assert options.enabled
    assert options.verbose_batches == 2


SMALL = "trainer_params.steps=6 trainer_params.batch_size=4 trainer_params.unroll=2"
SMALL += " model.width=8 model.depth=2 data.grid=64 data.trajectories=4 data.held_out=2"
SMALL += " data.frames=5"


def test_the_synthetic_trainer_from_its_configuration(run, tmp_path):
    words = ["--config-name=burgers_experiment", "trainer=synthetic_with_memory", *SMALL.split()]
    out = run("python", ROOT / "examples/run.py", *words, cwd=tmp_path).stdout
    lines = out.splitlines()
    assert "Memory monitoring enabled (verbose for first 5 batches)" in lines
    assert len(re.findall(r"^  Batch \d: CPU tensors", out, re.M)) >= 5
    assert re.search(rf"^  Epoch end: CPU tensors {NUMBER} allocated.*, peak {NUMBER}$", out, re.M)


def test_the_physical_trainer_from_its_configuration(run, tmp_path):
    pytest.importorskip("phi")
    words = ["--config-name=heat_physical_experiment", "trainer=physical_with_memory"]
    small = ["data.grid=16", "data.steps=4"]
    out = run("python", ROOT / "examples/run.py", *words, *small, cwd=tmp_path).stdout
    assert re.search(rf"^After loading ground truth data: {USAGE['cpu']}$", out, re.M)
    assert re.search(rf"^  Loss evaluation 0: {USAGE['cpu']}$", out, re.M)
    assert re.search(r"^    Iteration 1: loss=\d\.\d{6}$", out, re.M)
    assert re.search(rf"^After optimization: {USAGE['cpu']}$", out, re.M)
    assert re.search(rf"^  Peak .* during optimization: {NUMBER}$", out, re.M)
    assert len(re.findall("Loss evaluation", out)) <= 6


# Use of memory by category ------------------------------------------------------------------------


def test_weights_gradients_state_and_activations_are_estimated_before(device):
    model, x = make(device)
    before = [each.clone() for each in model.state_dict().values()]
    estimate = plimsoll.estimate(model, x, optimizer=torch.optim.Adam)
    weights = sum(each.nbytes for each in model.parameters())
    assert estimate.weights_bytes == weights
    assert estimate.gradients_bytes == weights
    assert abs(estimate.optimizer_state_bytes - 2 * weights) <= 4 * 8
    assert estimate.activations_bytes > 64 * 256 * 4
    assert all(
        torch.equal(old, new) for old, new in zip(before, model.state_dict().values(), strict=True)
    )
    assert all(each.grad is None for each in model.parameters())


def test_activations_grow_with_the_batch(device):
    sizes = []
    for batch in (16, 32):
        model, x = make(device, batch=batch)
        sizes.append(plimsoll.estimate(model, x).activations_bytes)
    assert sizes[1] == pytest.approx(2 * sizes[0], rel=0.05)


# Next to torch's own ------------------------------------------------------------------------------


@pytest.mark.only("cuda")
def test_torchs_own_snapshot_may_be_taken_meanwhile(device, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.cuda.memory._record_memory_history(enabled="all")
    with track_memory("training"):
        model, x = make(device)
        model(x).sum().backward()
    torch.cuda.memory._dump_snapshot("memory.pickle")
    torch.cuda.memory._record_memory_history(enabled=None)
    assert "cuda:0" in run("plimsoll", "report", "memory.pickle", cwd=tmp_path).stdout


def test_autocast_and_checkpointing_work_meanwhile(device, capsys):
    model, x = make(device)
    profiler = BatchMemoryProfiler()
    profiler.checkpoint("start")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).sum()
    profiler.checkpoint("forward")
    loss.backward()
    profiler.checkpoint("backward")
    profiler.print_summary()
    assert capsys.readouterr().out.startswith("    Memory profile:\n")

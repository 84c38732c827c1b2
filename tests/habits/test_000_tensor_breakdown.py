"""log_tensor_memory_breakdown: the habits of users who add one call to their own logging."""

import inspect
import subprocess
import sys

import pytest
import torch
from habit_models import MB, Writer, make, mebibytes, scalars
from torch import nn

import plimsoll
from plimsoll import log_tensor_memory_breakdown

CATEGORIES = ("gradients", "parameters", "activations", "buffers", "other")


def category(writer, name):
    return writer.last(f"Memory/Tensor_Category/{name}_MB")


def allocated_mb(device):
    return torch.cuda.memory_allocated() / MB if device == "cuda" else None


class Loop:
    """A training loop with the call after each iteration."""

    def __init__(self, device, *, interval=10):
        self.device = device
        self.model, self.x = make(device)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.writer = Writer()
        self.interval = interval

    def run(self, iterations, *, start=0):
        for iteration in range(start, start + iterations):
            self.optimizer.zero_grad()
            self.model(self.x).square().mean().backward()
            self.optimizer.step()
            log_tensor_memory_breakdown(self.writer, iteration, interval=self.interval)
        return self


# The call -----------------------------------------------------------------------------------------


def test_it_is_called_with_writer_iteration_and_interval():
    parameters = list(inspect.signature(log_tensor_memory_breakdown).parameters.values())[:3]
    assert [each.name for each in parameters] == ["writer", "iteration", "interval"]
    assert parameters[2].default == 500


def test_an_iteration_that_is_not_due_writes_nothing(device):
    loop = Loop(device, interval=500).run(3, start=1)
    assert loop.writer.points == {}


def test_each_interval_writes_one_point(device):
    loop = Loop(device).run(21)
    points = loop.writer.points["Memory/Tensor_Category/parameters_MB"]
    assert [step for step, _ in points] == [0, 10, 20]


def test_it_returns_nothing_and_takes_positions(device):
    writer = Writer()
    make(device)
    assert log_tensor_memory_breakdown(writer, 1000, 500) is None
    assert writer.points


def test_a_real_summary_writer_takes_it(device, tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    loop = Loop(device)
    with SummaryWriter(tmp_path) as loop.writer:
        loop.run(11)
    found = scalars(tmp_path)
    assert "Memory/Tensor_Category/gradients_MB" in found
    assert [step for step, _ in found["Memory/Large_Tensors/count"]] == [0, 10]


# The tags -----------------------------------------------------------------------------------------


def test_the_five_categories_are_there_and_sum_to_all(device):
    loop = Loop(device).run(11)
    total = sum(category(loop.writer, name) for name in CATEGORIES)
    assert total > 0
    if device == "cuda":
        assert total == pytest.approx(allocated_mb(device), abs=1e-6)


def test_categories_are_exact(device):
    loop = Loop(device).run(11)
    parameters = list(loop.model.parameters())
    bytes_of = sum(each.nbytes for each in parameters)
    rounding = 512 * len(parameters) / MB if device == "cuda" else 1e-9
    assert category(loop.writer, "parameters") == pytest.approx(bytes_of / MB, abs=rounding)
    assert category(loop.writer, "gradients") == pytest.approx(bytes_of / MB, abs=rounding)
    assert category(loop.writer, "buffers") == pytest.approx(128 * 4 / MB, abs=1e-3)


def test_dtypes_have_torchs_names(device):
    loop = Loop(device)
    half = nn.Linear(512, 512, dtype=torch.float16).to(device)
    loop.model.register_buffer("index", torch.zeros(MB // 8, dtype=torch.int64).to(device))
    loop.run(11)
    half(torch.ones(1, 512, dtype=torch.float16).to(device))
    loop.run(1, start=20)
    assert loop.writer.last("Memory/Tensor_DType/int64_MB") == pytest.approx(1.0, abs=0.01)
    assert loop.writer.last("Memory/Tensor_DType/float16_MB") >= 0.5
    assert loop.writer.last("Memory/Tensor_DType/float32_MB") > 0.5


@pytest.mark.parametrize(("size", "count"), [(99, 0), (100, 0), (101, 1)])
def test_tensors_above_100_mb_are_large(device, size, count):
    loop = Loop(device).run(1)
    counted = loop.writer.last("Memory/Large_Tensors/count")
    total = loop.writer.last("Memory/Large_Tensors/total_MB")
    loop.model.register_buffer("large", mebibytes(size, device))
    loop.run(1, start=10)
    assert loop.writer.last("Memory/Large_Tensors/count") - counted == count
    more = loop.writer.last("Memory/Large_Tensors/total_MB") - total
    block = 2 if device == "cuda" else 0.1  # on CUDA, a tensor counts with the size of its block
    assert more == pytest.approx(size * count, abs=block)


def test_fragmentation_is_reserved_but_not_allocated_in_percent(device):
    loop = Loop(device).run(11)
    points = loop.writer.points.get("Memory/fragmentation_percent", [])
    if device == "cpu":  # no caching allocator: no figure, or no fragmentation
        assert {value for _, value in points} <= {0.0}
        return
    reserved, allocated = torch.cuda.memory_reserved(), torch.cuda.memory_allocated()
    assert points[-1][1] == pytest.approx((reserved - allocated) / reserved * 100)


@pytest.mark.only("cuda")
def test_vram_is_in_gb_under_its_usual_names(device):
    loop = Loop(device).run(11)
    assert loop.writer.last("Memory/vram_allocated") == pytest.approx(
        torch.cuda.memory_allocated() / 1024**3
    )
    assert loop.writer.last("Memory/vram_reserved") == pytest.approx(
        torch.cuda.memory_reserved() / 1024**3
    )
    (tag,) = [tag for tag in loop.writer.points if "vram_allocated" in tag]  # in no other unit
    assert loop.writer.last(tag) * 1024**3 == torch.cuda.memory_allocated()


@pytest.mark.only("cuda")
def test_vram_percent_is_the_share_of_the_device_in_use(device):
    loop = Loop(device).run(11)
    free, total = torch.cuda.mem_get_info()
    assert loop.writer.last("Memory/vram_percent") == pytest.approx(100 * (total - free) / total)


def test_host_memory_and_processor_are_there(device):
    loop = Loop(device).run(11)
    for tag in ("ram_process", "ram_percent", "cpu_percent"):
        assert loop.writer.last(f"Memory/{tag}") >= 0


def test_layers_have_tags_of_their_own(device):
    loop = Loop(device).run(11)
    layers = [tag for tag in loop.writer.points if tag.startswith("Memory/Tensor_Layer/")]
    assert any("middle" in tag for tag in layers)


# What a category is -------------------------------------------------------------------------------


def test_a_leaf_tensor_is_not_a_parameter(device):
    loop = Loop(device).run(1)
    before = category(loop.writer, "parameters")
    other = category(loop.writer, "other")
    batch = mebibytes(8, device)
    assert batch.is_leaf
    loop.run(1, start=10)
    assert category(loop.writer, "parameters") == before
    assert category(loop.writer, "other") >= other + 7.9


def test_views_are_counted_once(device):
    loop = Loop(device).run(1)
    base = mebibytes(8, device)
    views = [base[:MB], base.view(-1, 2), base.detach()]
    loop.run(1, start=10)
    total = sum(category(loop.writer, name) for name in CATEGORIES)
    del views, base
    loop.run(1, start=20)
    assert total - sum(category(loop.writer, name) for name in CATEGORIES) == pytest.approx(
        8, abs=0.5
    )


def test_optimizer_state_is_not_parameters(device):
    loop = Loop(device).run(11)
    state = loop.writer.last("Memory/Tensor_Other/optimizer_state_MB")
    assert state == pytest.approx(2 * category(loop.writer, "parameters"), rel=0.05)


def test_parameters_that_require_gradients_stay_parameters_when_they_have_one(device):
    loop = Loop(device)
    log_tensor_memory_breakdown(loop.writer, 0, interval=10)
    before = category(loop.writer, "parameters")
    loop.run(1, start=10)
    assert category(loop.writer, "parameters") == before


# The training is not affected ---------------------------------------------------------------------


def test_training_learns_the_same(device):
    def losses(logging):
        torch.manual_seed(0)
        loop = Loop(device)
        losses = []
        for iteration in range(12):
            loop.optimizer.zero_grad()
            loss = loop.model(loop.x).square().mean()
            loss.backward()
            loop.optimizer.step()
            losses.append(loss.item())
            if logging:
                log_tensor_memory_breakdown(loop.writer, iteration, interval=4)
        return losses

    assert losses(False) == losses(True)


def test_no_gradient_is_computed_and_no_tensor_kept(device):
    loop = Loop(device).run(1)
    for each in loop.model.parameters():
        each.grad = None
    log_tensor_memory_breakdown(loop.writer, 10, interval=10)
    assert all(each.grad is None for each in loop.model.parameters())
    held = mebibytes(16, device)
    log_tensor_memory_breakdown(loop.writer, 20, interval=10)
    before = sum(category(loop.writer, name) for name in CATEGORIES)
    del held
    log_tensor_memory_breakdown(loop.writer, 30, interval=10)
    assert before - sum(category(loop.writer, name) for name in CATEGORIES) == pytest.approx(16)


def test_hostile_objects_on_the_heap_change_nothing(device):
    class Hostile:
        def __getattribute__(self, name):
            raise RuntimeError(f"somebody read {name}")

    kept = [Hostile() for _ in range(3)]
    loop = Loop(device).run(11)
    assert len(kept) == 3
    assert category(loop.writer, "parameters") > 0


# Snapshots ----------------------------------------------------------------------------------------


@pytest.mark.only("cuda")
def test_snapshots_of_torch_at_chosen_iterations(device, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    torch.cuda.memory._record_memory_history()
    loop = Loop(device)
    for iteration in range(3):
        loop.run(1, start=iteration * 10)
        if iteration in [1, 2]:
            torch.cuda.memory._dump_snapshot(f"memory_snapshot_iter{iteration}.pickle")
    torch.cuda.memory._record_memory_history(enabled=None)
    assert (
        "cuda:0" in run("plimsoll", "report", "memory_snapshot_iter1.pickle", cwd=tmp_path).stdout
    )
    subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.cuda._memory_viz",
            "trace_plot",
            "memory_snapshot_iter1.pickle",
            "-o",
            "memory_plot.html",
        ],
        cwd=tmp_path,
        check=True,
    )
    assert "cuda:0" in run("plimsoll", "report", "memory_plot.html", cwd=tmp_path).stdout


def test_the_monitor_takes_snapshots_at_chosen_iterations(device, tmp_path, run):
    loop = Loop(device)
    options = {"snapshot_at": [3, 6], "output_dir": str(tmp_path), "interval": 2}
    with plimsoll.TrainingMonitor(**options) as monitor:
        for iteration in range(9):
            loop.optimizer.zero_grad()
            loss = loop.model(loop.x).square().mean()
            loss.backward()
            loop.optimizer.step()
            monitor.step(iteration, loss)
    for iteration in (3, 6):
        found = sorted(tmp_path.rglob(f"memory_snapshot_iter{iteration}.*"))
        assert found, sorted(tmp_path.rglob("*"))
        if device == "cuda":
            assert any(path.suffix == ".pickle" for path in found)
        assert run("plimsoll", "report", found[0], cwd=tmp_path).stdout


# Leaks it can find --------------------------------------------------------------------------------


def grow(device, tmp_path, keep, *, steps=24):
    """The alerts of a loop that keeps something at each step."""
    alerts = []
    loop = Loop(device)
    kept = []
    options = {"output_dir": str(tmp_path), "interval": 1, "text_log": False}
    with plimsoll.TrainingMonitor(**options, on_alert=alerts.append) as monitor:
        for iteration in range(steps):
            loop.run(1, start=iteration)
            kept.append(keep(loop))
            monitor.step(iteration)
    return [alert.id for alert in alerts]


def test_growing_gradients_are_a_leak(device, tmp_path):
    def keep(loop):
        parameter = nn.Parameter(mebibytes(1, loop.device))
        parameter.grad = mebibytes(1, loop.device)
        loop.model.register_parameter(f"p{len(list(loop.model.parameters()))}", parameter)
        return parameter

    assert {"gradients_accumulate", "memory_growth"} & set(grow(device, tmp_path, keep))


def test_growing_other_tensors_are_a_leak(device, tmp_path):
    found = grow(device, tmp_path, lambda loop: mebibytes(1, loop.device))
    assert {"memory_growth", "temporaries_stay", "activations_stay"} & set(found)


def test_growing_numbers_of_large_tensors_are_a_leak(device, tmp_path):
    alerts = []
    kept = []
    options = {"output_dir": str(tmp_path), "interval": 1, "text_log": False, "large_tensor_mb": 1}
    loop = Loop(device)
    with plimsoll.TrainingMonitor(**options, on_alert=alerts.append) as monitor:
        for iteration in range(30):
            loop.run(1, start=iteration)
            kept.append(mebibytes(2, device))
            monitor.step(iteration)
    assert "more_large_tensors" in [alert.id for alert in alerts]


def test_memory_that_jumps_with_the_loss_is_noticed(device, tmp_path):
    alerts = []
    loop = Loop(device)
    options = {"output_dir": str(tmp_path), "interval": 1, "text_log": False}
    with plimsoll.TrainingMonitor(**options, on_alert=alerts.append) as monitor:
        for iteration in range(20):
            loop.run(1, start=iteration)
            spike = mebibytes(64, device) if iteration == 15 else None
            monitor.step(iteration, 50.0 if iteration == 15 else 0.5)
            del spike
    assert "memory_jump_with_loss" in [alert.id for alert in alerts]

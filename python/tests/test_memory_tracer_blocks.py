"""The blocks of a MemoryTracer: what each finds, leaves behind, and does not repeat."""

import gc
import sys
import threading
import weakref

import pytest
import torch

import plimsoll
from plimsoll import MemoryTracer, memory_tracer
from plimsoll._torch import attachment

nn = torch.nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 8, bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def train_step(model) -> None:
    model(torch.ones(32, 64)).sum().backward()


def bytes_of(model, optimizer=None) -> dict[str, int]:
    """The tensors that the tracer should find when a block begins."""
    state = [] if optimizer is None else optimizer.state.values()
    return {
        "parameter": sum(each.nbytes for each in model.parameters()),
        "gradient": sum(e.grad.nbytes for e in model.parameters() if e.grad is not None),
        "buffer": sum(each.nbytes for each in model.buffers()),
        "optimizer_state": sum(each.nbytes for s in state for each in s.values()),
    }


def found_in_an_empty_block(model) -> dict[str, int]:
    tracer = MemoryTracer()
    with tracer.trace(model):
        pass
    found = dict.fromkeys(("parameter", "gradient", "buffer", "optimizer_state"), 0)
    prefix = type(model).__name__
    lifetimes = tracer.report().events.to_pydict()
    rows = zip(*(lifetimes[name] for name in ("category", "tensor", "size_bytes")), strict=True)
    for category, tensor, size_bytes in rows:
        if category in found and tensor and tensor.startswith(prefix):
            found[category] += size_bytes
    return found


class Normed(Net):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)

    def forward(self, x):
        return super().forward(self.norm(x))


def test_every_block_finds_the_memory_of_the_model_and_its_optimizer():
    """Finds changes that happened while no block ran and no hook was installed."""
    gc.collect()
    model = Normed()
    assert found_in_an_empty_block(model) == bytes_of(model)
    gc.disable()
    try:
        train_step(model)
        assert found_in_an_empty_block(model) == bytes_of(model)
        optimizer = torch.optim.Adam(model.parameters())
        optimizer.step()
        assert found_in_an_empty_block(model) == bytes_of(model, optimizer)
        optimizer.zero_grad(set_to_none=True)
        assert found_in_an_empty_block(model) == bytes_of(model, optimizer)
        model.up = nn.Linear(64, 256)
        model.down.weight = nn.Parameter(torch.zeros(8, 256))
        assert found_in_an_empty_block(model)["parameter"] == bytes_of(model)["parameter"]
    finally:
        gc.enable()
    optimizer = torch.optim.AdamW(model.parameters())
    train_step(model)
    optimizer.step()
    gc.collect()  # frees the first optimizer and its state
    assert found_in_an_empty_block(model) == bytes_of(model, optimizer)


def test_a_tensor_from_between_two_blocks_is_counted():
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        pass
    batch = torch.ones(12345)
    with tracer.trace(model):
        pass
    first, second = (e for e in tracer.events if e.event_type == "snapshot" and e.size_bytes)
    assert second.allocated_bytes - first.allocated_bytes == batch.nbytes


# ---- the cost of a block: hooks and searches, not seconds ----------------------------------------


def test_performance_overhead_is_nothing_outside_of_blocks():
    modules = sys.modules["torch.nn.modules.module"]
    registries = [
        modules._global_forward_hooks,
        modules._global_forward_pre_hooks,
        modules._global_module_registration_hooks,
        modules._global_parameter_registration_hooks,
    ]
    model, tracer = Net(), MemoryTracer()
    before = [dict(each) for each in registries]
    threads = set(threading.enumerate())
    for _ in range(3):
        with tracer.trace(model):
            assert attachment.attached() is not None
            assert model._forward_hooks == model._forward_pre_hooks == {}
        assert [dict(each) for each in registries] == before
        assert attachment.attached() is None
        assert set(threading.enumerate()) <= threads


def test_performance_overhead_no_analysis_in_blocks(monkeypatch):
    model, tracer = Net(), MemoryTracer()
    monkeypatch.setattr("plimsoll._core.open_bytes", None)  # would raise
    for _ in range(20):
        with tracer.trace(model):
            train_step(model)


def test_no_weak_reference_to_a_tensor_outlives_a_block():
    """torch.utils.swap_tensors, which module.to() may use, refuses such tensors."""
    model, tracer = Net(), MemoryTracer()
    batch, other = torch.ones(32, 64), torch.zeros(32, 64)
    for _ in range(2):
        with tracer.trace(model):
            model(batch)
    assert weakref.getweakrefcount(batch) == 0
    torch.utils.swap_tensors(batch, other)
    assert not batch.any()


@pytest.mark.slow
def test_unread_blocks_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(memory_tracer, "_SUMMED_EVENTS", 300)
    model, tracer = Net(), MemoryTracer(max_events=300)
    for _ in range(50):
        with tracer.trace(model):
            train_step(model)
    assert sum(each.state["events"] for each in tracer._unread) < 1_000
    assert tracer.get_layer_stats()["up"].calls == 50
    assert len(tracer.events) == 300


def test_names_are_the_models_own_with_another_model_of_its_class():
    other, model = Net(), Net()
    for order in ((other, model), (model, other)):
        tracer = MemoryTracer()
        with tracer.trace(order[1]):
            for _ in range(3):
                train_step(order[1])
            train_step(order[0])
        stats = tracer.get_layer_stats()
        (title,) = (name for name in stats if name in ("Net#1", "Net#2"))
        assert {"Net", "up", "down", f"{title}.up", f"{title}.down"} <= set(stats)
        assert (stats["up"].calls, stats[f"{title}.up"].calls) == (3, 1)
        entered = [e.layer_name for e in tracer.events if e.event_type == "layer_enter"]
        assert (entered.count("up"), entered.count(f"{title}.up")) == (3, 1)


def test_a_part_of_a_model_has_its_own_names():
    whole, tracer = nn.Sequential(Net(), nn.ReLU()), MemoryTracer()
    with tracer.trace(whole[0]):
        whole(torch.ones(32, 64))
    stats = tracer.get_layer_stats()
    assert {"Net", "up", "down", "Sequential", "Sequential.1"} <= set(stats)
    assert stats["up"].calls == 1


def test_models_of_one_kind_count_together_over_blocks():
    tracer = MemoryTracer()
    for _ in range(3):
        model = Net()
        with tracer.trace(model):
            train_step(model)
    assert tracer.get_layer_stats()["up"].calls == 3


def test_live_models_have_the_same_names_in_all_blocks():
    first, second, other = Net(), Net(), Net()
    tracer = MemoryTracer()
    for _ in range(3):
        with tracer.trace(first):
            train_step(first)
            train_step(other)
        late = Net()  # searches find it among the others, in any order
    with tracer.trace(second):
        train_step(second)
        train_step(second)
    calls = sorted(each.calls for name, each in tracer.get_layer_stats().items() if "up" in name)
    assert calls == [0, 2, 3, 3]
    del late


def test_two_models_in_one_block_are_kept_apart():
    first, second, tracer = Net(), Net(), MemoryTracer()
    with tracer.trace(first), tracer.trace(second):
        train_step(first)
        train_step(first)
        train_step(second)
    stats = tracer.get_layer_stats()
    assert sorted(stats[f"{name}.up"].calls for name in ("Net", "Net#2")) == [1, 2]


def test_a_wrapper_and_its_model_are_one_layer():
    model = nn.DataParallel(Net())
    for traced in (model, model.module):
        tracer = MemoryTracer()
        with tracer.trace(traced):
            train_step(model)
            train_step(model)
        stats = tracer.get_layer_stats()
        assert {name: each.calls for name, each in stats.items() if name != "[no layer]"} == {
            "Net": 2, "up": 2, "down": 2,
        }  # fmt: skip


def test_events_that_are_discarded_are_reported(monkeypatch, capfd):
    monkeypatch.setattr(memory_tracer, "_SUMMED_EVENTS", 1_000)
    model, tracer = Net(), MemoryTracer(max_events=500)
    for _ in range(2):
        with tracer.trace(model):
            for _ in range(200):
                train_step(model)
    printed = capfd.readouterr().err.splitlines()
    assert len(printed) == 1
    assert "layer statistics do not include them" in printed[0]
    assert 0 < tracer.get_layer_stats()["up"].calls < 400


def test_in_an_open_block_exports_and_summary_name_the_reason(tmp_path, capsys):
    model, tracer = Net(), MemoryTracer()
    with tracer.trace(model):
        with pytest.raises(plimsoll.Error, match="has not ended"):
            tracer.export_timeline(tmp_path / "timeline.json")
        tracer.print_summary()
    assert capsys.readouterr().out == "The block has not ended.\n"


def test_a_model_on_meta_is_traced_on_the_cpu_with_a_message(capfd):
    model, tracer = Net().to("meta"), MemoryTracer()
    with tracer.trace(model):
        kept = torch.ones(1_000)
    assert "the model is on meta" in capfd.readouterr().err
    assert tracer.get_layer_stats()["[no layer]"].peak_allocated >= kept.nbytes


def test_a_model_and_its_wrapper_are_one_model_over_blocks():
    model, tracer = Net(), MemoryTracer()
    wrapped = nn.DataParallel(model)
    for traced in (model, wrapped, model):
        with tracer.trace(traced):
            train_step(traced)
    calls = {name: each.calls for name, each in tracer.get_layer_stats().items()}
    assert calls == {"[no layer]": 0, "Net": 3, "up": 3, "down": 3}


def test_a_child_with_the_name_of_the_class_leaves_the_model_its_row():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.Encoder = nn.Linear(100, 100)

        def forward(self, x):
            return self.Encoder(x)

    model, tracer = Encoder(), MemoryTracer()
    with tracer.trace(model):
        model(torch.ones(2, 100))
    stats = tracer.get_layer_stats()
    inner = stats["Encoder.Encoder"].peak_allocated
    assert inner == 4 * 100 * 101 + 4 * 200
    assert stats["Encoder"].peak_allocated >= inner


def test_parameters_that_got_new_memory_belong_to_their_layer():
    model, tracer = nn.Sequential(nn.Linear(30, 30)), MemoryTracer()
    with tracer.trace(model):
        model.double()
        model(torch.ones(2, 30, dtype=torch.float64))
    parameters = sum(each.nbytes for each in model.parameters())
    assert tracer.get_layer_stats()["0"].peak_allocated >= parameters + 480

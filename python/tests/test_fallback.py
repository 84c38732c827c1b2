"""Recording without a compiler, among the dispatch modes of the program."""

import gc
import threading

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode

import plimsoll
from plimsoll._torch.dispatch_stack import take_out


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def stack_is_as_before():
    before = _get_current_dispatch_mode_stack()
    yield
    assert _get_current_dispatch_mode_stack() == before


def recorded(path):
    return plimsoll.record(path, adapter="python")


def operators(path):
    return {row["key"] for row in plimsoll.open(path, at="peak").tables["by_operator"]}


def test_a_recording_that_begins_within_a_mode_outlives_it(tmp_path):
    recording = recorded(tmp_path / "run.plim")
    mode = Counting()
    with mode:
        torch.ones(3)
        recording.start()
        torch.ones(4)
    assert mode.seen == 2
    kept = torch.ones(1000) + 1  # after the program's mode has gone
    recording.stop()
    assert mode.seen == 2
    assert "aten::add" in " ".join(operators(recording.path))
    del kept


def test_a_recording_that_ends_within_a_mode_takes_nothing_with_it(tmp_path):
    recording = recorded(tmp_path / "run.plim").start()
    with Counting() as outer, Counting() as inner:
        torch.ones(3)
        recording.stop()
        torch.ones(3)
        assert _get_current_dispatch_mode_stack()[-2:] == [outer, inner]
    assert (outer.seen, inner.seen) == (2, 2)


def test_modes_of_the_program_see_what_they_saw(tmp_path):
    def flops(train):
        with FlopCounterMode(display=False) as counter:
            train()
        return counter.get_total_flops()

    def train():
        model = torch.nn.Linear(8, 4)
        model(torch.ones(2, 8)).sum().backward()

    alone = flops(train)
    with recorded(tmp_path / "run.plim"):
        assert flops(train) == alone
    assert alone > 0


def test_a_recording_that_another_thread_ends_goes_on_in_none(tmp_path):
    recording = recorded(tmp_path / "run.plim").start()
    held = torch.ones(3)
    thread = threading.Thread(target=recording.stop)
    thread.start()
    thread.join()
    events = recording.state["events"]
    torch.ones(3)
    again = recorded(tmp_path / "again.plim").start()
    kept = torch.ones(1000) * 2
    again.stop()
    assert events > 0
    assert "aten::mul" in " ".join(operators(again.path))
    del kept, held
    # The first one's mode is still there, and lets all through: its own thread alone can take it.
    (mode,) = _get_current_dispatch_mode_stack()
    assert mode._is_over
    take_out(mode)


def test_what_is_compiled_stays_compiled(tmp_path):
    torch._dynamo.reset()
    ran = []

    def backend(graph, inputs):
        ran.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: x.sin() + 1, backend=backend)
    with recorded(tmp_path / "run.plim"):
        assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin() + 1)
    assert len(ran) == 1
    torch._dynamo.reset()


class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def test_backward_knows_the_layer_of_the_forward(tmp_path):
    model, x = Halves(), torch.ones(8, 64)
    with recorded(tmp_path / "run.plim") as recording:
        model(x).sum().backward()
    trace = plimsoll.open(recording.path, at="end")
    layers = {row["key"]: row["bytes"] for row in trace.tables["by_layer"]}
    held = (64 * 64 + 64) * 4  # by the parameters of each, and by their gradients
    assert layers["Halves.first"] == layers["Halves.second"] == 2 * held


def test_what_exists_already_has_category_and_layer(tmp_path):
    gc.collect()  # models that earlier tests left to it
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(4, 64)).sum().backward()
    optimizer.step()
    with recorded(tmp_path / "run.plim") as recording:
        pass
    tables = recording.report().tables
    sizes = {row["key"]: row["bytes"] for row in tables["by_category"]}
    parameters = sum(each.nbytes for each in model.parameters())
    assert sizes["parameter"] == sizes["gradient"] == parameters
    assert sizes["optimizer_state"] == 2 * parameters + 4 * 4
    layers = {row["layer"]: row["inclusive"]["peak_bytes"] for row in tables["layers"]}
    inner = sum(each.nbytes for each in model[0].parameters())
    assert layers["Sequential.0"] == 2 * inner


def test_that_there_is_no_compiler_is_said_once(tmp_path, monkeypatch, capsys):
    def fail(say):
        raise plimsoll.AdapterError("there is no compiler")

    monkeypatch.setattr("plimsoll._torch.adapter.load", fail)
    for name in ("a", "b"):
        with plimsoll.record(tmp_path / f"{name}.plim"):
            torch.ones(3)
    assert capsys.readouterr().err.count("there is no compiler") == 1

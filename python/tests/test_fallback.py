"""Recording without a compiler, among the dispatch modes of the program."""

import gc
import signal
import subprocess
import sys
import threading
import weakref

import pyarrow as pa
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode

import plimsoll
from plimsoll import _record
from plimsoll._torch import attachment, fallback
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
    kept = torch.ones(1000) + 1  # after the program's mode was removed
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


def test_modes_of_the_program_see_the_same_as_before(tmp_path):
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


def test_a_recording_that_another_thread_ends_is_not_continued(tmp_path):
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
    # The first mode is still there but does nothing: only its own thread can remove it.
    (mode,) = _get_current_dispatch_mode_stack()
    assert mode._is_over
    take_out(mode)


def test_compiled_code_stays_compiled(tmp_path):
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
    held = (64 * 64 + 64) * 4  # one for the parameters of each, one for their gradients
    assert layers["Halves.first"] == layers["Halves.second"] == 2 * held


class Unsearchable(torch.nn.Module):
    """Overrides the methods that a search could call."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(64, 64)

    def forward(self, x):
        return self.inner(x)

    def fails(self, *_, **__):
        raise ValueError

    named_modules = named_parameters = named_buffers = children = modules = fails


class Bare(torch.nn.Module):
    """Has none of torch's dictionaries."""

    def __init__(self):
        pass


def test_modules_that_cannot_be_searched_raise_nothing(tmp_path):
    bare, early = Bare(), Unsearchable()
    with recorded(tmp_path / "run.plim") as recording:
        model = Unsearchable()
        optimizer = torch.optim.Adam(model.inner.parameters())
        for each in (model, early):
            each(torch.ones(2, 64)).sum().backward()
        optimizer.step()
    rows = plimsoll.open(recording.path, at="peak").tables["by_layer"]
    assert "Unsearchable.inner" in {row["key"] for row in rows}
    del bare


def test_an_object_that_cannot_be_described_is_reported_once(tmp_path, monkeypatch, capsys):
    def fails(_):
        raise KeyError("odd")

    monkeypatch.setattr(fallback, "_reported", set())
    with recorded(tmp_path / "run.plim"), monkeypatch.context() as patch:
        patch.setattr(fallback, "memory_of", fails)
        kept = torch.ones(4) + torch.ones(4)
    assert kept.tolist() == [2.0] * 4
    assert capsys.readouterr().err.splitlines() == [
        "plimsoll: a tensor, module or optimizer cannot be described (KeyError: 'odd'); its memory"
        " may lack names"
    ]


SEARCH = """
import torch
from plimsoll._torch.module_tree import buffers_of, modules_of, parameters_of
shared = torch.nn.Linear(3, 3)
model = torch.nn.Sequential(shared, torch.nn.Sequential(shared, torch.nn.BatchNorm1d(3)))
assert [path for path, _ in modules_of(model)] == [path for path, _ in model.named_modules()]
for each in (model, torch.jit.script(model)):
    assert list(dict(parameters_of(each))) == list(dict(each.named_parameters()))
    assert list(dict(buffers_of(each))) == list(dict(each.named_buffers()))
"""


def test_shared_and_scripted_modules_are_named_once():
    """Uses a separate process, because TorchScript keeps modules forever."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", SEARCH], check=True)


def test_what_exists_already_has_category_and_layer(tmp_path):
    gc.collect()  # collects models of earlier tests
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


def test_a_missing_compiler_is_reported_once(tmp_path, monkeypatch, capsys):
    def fail(say, elsewhere_since_ns=None):
        raise plimsoll.AdapterError("there is no compiler")

    monkeypatch.setattr("plimsoll._torch.adapter.load", fail)
    for name in ("a", "b"):
        with plimsoll.record(tmp_path / f"{name}.plim"):
            torch.ones(3)
    assert capsys.readouterr().err.count("there is no compiler") == 1


@pytest.mark.parametrize("call", ["stack", "tensor", "set_context", "begin_layer", "end_layer"])
def test_without_memory_for_names_the_training_continues(call, tmp_path, monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    real = getattr(_record, call)

    def out_of_memory(*arguments):
        if any(isinstance(each, (str, list)) and each for each in arguments):
            raise MemoryError
        return real(*arguments)

    with recorded(tmp_path / "run.plim") as recording:
        monkeypatch.setattr(_record, call, out_of_memory)
        kept = torch.zeros(1 << 20)
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    assert recording.peaks["cpu"] >= kept.nbytes


def test_an_error_that_was_handled_keeps_no_variables_of_the_program(tmp_path, monkeypatch):
    def out_of_memory(*_):
        raise MemoryError

    def trained():
        kept = torch.zeros(8)
        return weakref.ref(kept)

    with recorded(tmp_path / "run.plim"):
        monkeypatch.setattr(_record, "stack", out_of_memory)
        gc.collect()
        gc.disable()  # freeing the tensor must not need it
        try:
            assert trained()() is None
        finally:
            gc.enable()


def test_an_exception_of_a_signal_is_not_taken_for_a_lack_of_memory(tmp_path, monkeypatch):
    def interrupted(*_):
        signal.raise_signal(signal.SIGUSR1)

    def handler(*_):
        raise MemoryError("of the program")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with recorded(tmp_path / "run.plim"), pytest.raises(MemoryError, match="of the program"):
            monkeypatch.setattr(_record, "stack", interrupted)
            torch.zeros(3)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_model_that_a_collection_makes_old_is_found(tmp_path):
    """Young objects are searched before each sample, all objects only from time to time."""
    before = list(gc.callbacks)
    with recorded(tmp_path / "run.plim"):
        attachment.attached()._search_due = float("inf")
        model = torch.nn.Linear(50, 50)
        gc.collect(1)
        (row,) = [each for each in _record.take_sample().devices if each.name == "cpu"]
        found = {each.name: each.size_bytes for each in row.categories}
        assert found["parameter"] >= model.weight.nbytes + model.bias.nbytes
    assert gc.callbacks == before


def test_a_storage_that_is_resized_counts_once(tmp_path):
    def live_bytes():
        (row,) = [each for each in _record.take_sample().devices if each.name == "cpu"]
        return row.live_bytes

    with recorded(tmp_path / "run.plim"):
        before = live_bytes()
        tensor = torch.zeros(100)
        tensor.resize_(5000)
        assert live_bytes() == before + 4 * 5000
        tensor.resize_(20000)
        assert live_bytes() == before + 4 * 20000
        del tensor
        assert live_bytes() == before


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def test_operators_that_can_be_of_no_graph_are_known(tmp_path):
    x = torch.ones(1000, requires_grad=True)
    with recorded(tmp_path / "run.plim"):
        with torch.no_grad():
            kept = [x.exp()]
        kept += [Doubled.apply(x), x.cos()]
    sites = pa.table(plimsoll.open(tmp_path / "run.plim").sites).to_pylist()
    by_operator = {row["operator"]: row["autograd"] for row in sites}
    assert by_operator["aten::exp"] == "off"
    assert by_operator["aten::mul"] == by_operator["aten::cos"] == "unknown"


@pytest.mark.parametrize("turns", ["012012012", "000111222"])  # in one loop, in three
def test_optimizers_that_step_in_turn_make_one_step(turns, tmp_path):
    optimizers = [torch.optim.SGD([torch.zeros(1, requires_grad=True)]) for _ in range(3)]
    with recorded(tmp_path / "run.plim") as recording:
        for each in turns:
            optimizers[int(each)].step()
    steps = 3 if turns[0] != turns[1] else 9
    assert len(plimsoll.open(recording.path).steps.to_pydict()["step"]) == steps

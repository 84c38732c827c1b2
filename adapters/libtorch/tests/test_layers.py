"""Layers, phases and marks."""

import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
from watching import (
    BACKWARD,
    BACKWARD_BEGIN,
    BACKWARD_END,
    DATA,
    FORWARD,
    GRADIENT,
    OPTIMIZER,
    OTHER,
    PARAMETER,
    REGION_BEGIN,
    REGION_END,
    STEP,
    Recorder,
    allocs,
    marks,
    tag_names,
)


class Net(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.first = nn.Linear(width, 20)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(20, 5))

    def forward(self, x):
        return self.rest(self.first(x))


def test_the_layer_is_the_module_whose_forward_runs(recorder):
    net = Net()
    recorder.take()
    net(torch.randn(7, 10))
    layers = [(e["layer"], e["size"]) for e in allocs(recorder.take(), phase=FORWARD)]
    assert layers == [("Net.first", 560), ("Net.rest.0", 560), ("Net.rest.1", 140)]


def test_backward_has_the_layer_operator_and_line_of_forward(recorder):
    net = Net()
    out = net(torch.randn(7, 10))
    recorder.take()
    out.sum().backward()
    backward = allocs(recorder.take(), phase=BACKWARD)
    by_size = {e["size"]: e for e in backward}
    assert by_size[800]["layer"] == "Net.first"  # its weight's gradient
    assert by_size[800]["outer_op"] == "AddmmBackward0"
    assert by_size[800]["forward_op"] == "aten::addmm"
    assert recorder.stack(by_size[800])[0][2].endswith("forward")
    assert by_size[400]["layer"] == "Net.rest.1"
    assert by_size[80]["layer"] == "Net.first"  # the bias's, a sum that the engine adds
    assert by_size[560]["layer"] in ("Net.rest.0", "Net.rest.1")


def test_an_exception_in_a_forward_leaves_no_stale_layer(recorder):
    class Breaks(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            self.inner(x)
            return torch.randn(2, 3) @ torch.randn(2, 3)

    with pytest.raises(RuntimeError):
        Breaks()(torch.randn(2, 4))
    recorder.take()
    torch.randn(9).sin()
    assert {(e["layer"], e["phase"]) for e in allocs(recorder.take())} == {("", OTHER)}


def test_an_exception_in_a_backward_leaves_no_stale_layer(recorder):
    class Breaks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("no")

    x = torch.randn(4, requires_grad=True)
    with pytest.raises(ValueError, match="no"):
        Breaks.apply(x * 3).sum().backward()
    recorder.take()
    torch.randn(9).sin()
    assert {(e["layer"], e["phase"]) for e in allocs(recorder.take())} == {("", OTHER)}


def test_a_loss_outside_modules_is_forward(recorder):
    x = torch.randn(50, requires_grad=True)
    recorder.take()
    loss = (x * 2).sum()
    events = recorder.take()
    changed = {e["instance"] for e in events if e["kind"] == "set_phase" and e["to"] == FORWARD}
    in_operators = {e["instance"] for e in allocs(events)} - {0}  # 0: the scalar 2, made a tensor
    assert in_operators
    assert in_operators <= changed
    del loss
    torch.randn(50) * 2
    assert not [e for e in recorder.take() if e["kind"] == "set_phase"]


def test_optimizers_and_data_loaders_are_phases(recorder):
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.randn(2, 10)).sum().backward()
    recorder.take()
    optimizer.step()
    assert {e["phase"] for e in allocs(recorder.take())} == {OPTIMIZER}
    loader = DataLoader(TensorDataset(torch.randn(8, 10)), batch_size=4)
    recorder.take()
    batches = list(loader)
    events = allocs(recorder.take(), size=160)
    assert len(events) == 2
    assert {e["phase"] for e in events} == {DATA}
    del batches
    torch.randn(3)
    assert allocs(recorder.take())[0]["phase"] == OTHER


def test_a_closure_in_a_step_is_forward_and_backward(recorder):
    net = nn.Linear(6, 3)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
    x = torch.randn(11, 6)

    def closure():
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        return loss

    recorder.take()
    optimizer.step(closure)
    phases = {(e["layer"], e["phase"]) for e in allocs(recorder.take())}
    assert {("Linear", FORWARD), ("Linear", BACKWARD), ("", OPTIMIZER)} <= phases


def test_steps_are_marked_by_the_first_optimizer_until_the_user_does(recorder):
    nets = [nn.Linear(3, 3) for _ in range(2)]
    optimizers = [torch.optim.SGD(n.parameters(), lr=0.1) for n in nets]
    for _ in range(3):
        for net, optimizer in zip(nets, optimizers, strict=True):
            net(torch.randn(1, 3)).sum().backward()
            optimizer.step()
    assert marks(recorder.take(), STEP) == [1, 2, 3]
    recorder.user_marks_steps()
    optimizers[0].step()
    assert marks(recorder.take(), STEP) == []


# Letters are optimizers in the order of their steps, and capitals end a step of the loop.
LOOPS = {
    "folds, each with its own optimizer": "AAAAA BBBBB CCCCC",
    "GAN": "Ab Ab Ab Ab",
    "GAN, its generator trained alone before": "AAA Ba Ba Ba",
    "folds of a GAN": "Ab Ab Ab Cd Cd Cd",
    "three optimizers of one loop": "Abc Abc Abc",
    "one for each of 26 parameters": " ".join(["Abcdefghijklmnopqrstuvwxyz"] * 4),
    "two parts of the training by turns": "AAAA BBBB AAAA BBBB",
}
# Totals only: the rare one ends a step in place of the next one of the frequent one.
COUNTS = {
    "five steps of the critic for each of the generator": ("aaaaab" * 6 + "a", 31),
    "the same, the generator first": ("baaaaa" * 6, 30),
    "an actor that steps every other time": ("aab" * 6 + "a", 13),
}


def steps_marked(recorder, letters):
    optimizers = {
        each: torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
        for each in set(letters.lower())
    }
    marked = ""
    recorder.take()
    for each in letters.lower():
        optimizers[each].step()
        marked += each.upper() if marks(recorder.take(), STEP) else each
    return marked


@pytest.mark.parametrize("loop", LOOPS)
def test_optimizers_that_step_in_turn_make_one_step(recorder, loop):
    letters = LOOPS[loop].replace(" ", "")
    assert steps_marked(recorder, letters) == letters


@pytest.mark.parametrize("loop", COUNTS)
def test_the_optimizer_that_steps_most_often_ends_the_steps(recorder, loop):
    letters, steps = COUNTS[loop]
    assert sum(each.isupper() for each in steps_marked(recorder, letters)) == steps


def test_marks_around_backward(recorder):
    x = torch.randn(5, requires_grad=True)
    for _ in range(2):
        (x * 2).sum().backward()
    torch.randn(1)
    events = recorder.take()
    assert len(marks(events, BACKWARD_BEGIN)) == len(marks(events, BACKWARD_END)) == 2


def test_user_scopes_are_regions(recorder):
    with torch.profiler.record_function("validation"):
        torch.randn(3)
    events = recorder.take()
    assert marks(events, REGION_BEGIN) == marks(events, REGION_END) == ["validation"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_recomputes_in_backward_with_the_layer_that_runs(recorder, reentrant):
    net = Net()
    x = torch.randn(7, 10, requires_grad=True)
    out = checkpoint(net, x, use_reentrant=reentrant)
    recorder.take()
    out.sum().backward()
    events = allocs(recorder.take())
    assert {e["phase"] for e in events if e["layer"].startswith("Net")} == {BACKWARD}
    recomputed = [e["layer"] for e in events if e["outer_op"] == "aten::linear"]
    assert recomputed[0] == "Net.first"
    weights = {e["size"]: e["layer"] for e in events if e["outer_op"] == "AddmmBackward0"}
    assert weights[800] == "Net.first"
    torch.randn(3)
    assert allocs(recorder.take())[-1]["phase"] == OTHER


def test_two_roots_of_a_class_are_numbered_and_numbers_are_used_again(recorder):
    first, second = Net(), Net()
    recorder.take()
    first(torch.randn(1, 10))
    second(torch.randn(1, 10))
    assert {e["layer"].split(".")[0] for e in allocs(recorder.take(), phase=FORWARD)} == {
        "Net",
        "Net#2",
    }
    del second
    Net()(torch.randn(1, 10))
    assert {e["layer"].split(".")[0] for e in allocs(recorder.take(), phase=FORWARD)} == {"Net#2"}


def test_a_module_called_by_itself_has_its_place_in_the_model(recorder):
    net = Net()
    recorder.take()
    net.first(torch.randn(1, 10))
    assert {e["layer"] for e in allocs(recorder.take(), phase=FORWARD)} == {"Net.first"}


def test_a_module_from_before_has_its_place_in_the_model(library):
    net = Net()
    recorder = Recorder(library).attach()
    assert tag_names(recorder.take(), PARAMETER)["Net.first.weight"] == 800
    net.rest[1](torch.randn(1, 20))
    assert {e["layer"] for e in allocs(recorder.take(), phase=FORWARD)} == {"Net.rest.1"}
    recorder.detach()


def test_modules_kept_in_a_list_are_named_by_their_caller(recorder):
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(4, 4)]

        def forward(self, x):
            return self.layers[0](x)

    recorder.take()
    Hidden()(torch.randn(2, 4))
    assert {e["layer"] for e in allocs(recorder.take(), phase=FORWARD)} == {"Hidden.Linear"}


def test_threads_run_models_simultaneously(recorder):
    models = [nn.Sequential(nn.Linear(8, n), nn.ReLU()) for n in range(1, 5)]
    start = threading.Barrier(4)

    def work(model):
        start.wait()
        for _ in range(30):
            model(torch.randn(3, 8)).sum().backward()

    threads = [threading.Thread(target=work, args=(m,)) for m in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for event in allocs(recorder.take(), outer_op="aten::linear"):
        number = event["size"] // 12
        suffix = event["layer"].split(".")[0]
        assert event["layer"].endswith(".0")
        assert suffix in {"Sequential", "Sequential#2", "Sequential#3", "Sequential#4"}
        assert 1 <= number <= 4


def test_lite_mode_has_layers_and_phases_without_operators(lite_recorder):
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    lite_recorder.take()
    net(torch.randn(7, 10)).square().sum().backward()
    events = lite_recorder.take()
    assert {e["outer_op"] for e in events} == {""}
    forward = [e["layer"] for e in allocs(events, phase=FORWARD)]
    assert forward[:3] == ["Net.first", "Net.rest.0", "Net.rest.1"]
    assert set(forward[3:]) == {""}  # the loss
    backward = {e["size"]: e["layer"] for e in allocs(events, phase=BACKWARD)}
    assert backward[800] == "Net.first"
    assert backward[400] == "Net.rest.1"
    assert len(marks(events, BACKWARD_BEGIN)) == 1
    optimizer.step()
    events = lite_recorder.take()
    assert {e["phase"] for e in allocs(events)} == {OPTIMIZER}
    assert len(tag_names(events, GRADIENT)) == 4


class Ends(torch.autograd.Function):
    """Fails in its backward, if requested."""

    @staticmethod
    def forward(ctx, x, fails):
        ctx.fails = fails
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.fails:
            raise RuntimeError("no gradient")
        return grad + 1, None


def failing_backward(weight):
    """Allocates in the backward, then fails in it."""
    (Ends.apply(weight * 1.0, True) * 2.0 * 3.0).sum().backward()


@pytest.mark.parametrize("mode", ["full", "lite", "watch"])
def test_a_backward_ends_when_it_ends_or_fails(library, mode):
    weight = torch.rand(20, 20, requires_grad=True)
    for is_failing in (False, True, False, False):
        recorder = Recorder(library).attach(mode)
        try:
            recorder.take()
            if is_failing:
                with pytest.raises(RuntimeError, match="no gradient"):
                    failing_backward(weight)
                weight.grad = None
            after = torch.empty(1001)
            loss = Ends.apply(weight * 2, False).sum()
            loss.backward()
            end = torch.empty(1003)
            events = recorder.take()
            phases = {e["size"]: e["phase"] for e in allocs(events)}
            assert phases[4 * 1001] == phases[4 * 1003] == OTHER
            backward = [e for e in allocs(events, phase=BACKWARD) if e["size"] == 4 * 400]
            assert backward
            begun, ended = len(marks(events, BACKWARD_BEGIN)), len(marks(events, BACKWARD_END))
            assert begun == ended == 1 + is_failing
            del after, end
        finally:
            recorder.detach()


@pytest.mark.parametrize("mode", ["full", "lite", "watch"])
def test_a_backward_that_fails_inside_a_forward_ends_there(library, mode):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(20, 20)

        def forward(self, x):
            with pytest.raises(RuntimeError, match="no gradient"):
                failing_backward(self.layer(x))
            return self.layer(torch.empty(20, 20).zero_() + x)

    recorder = Recorder(library).attach(mode)
    try:
        model, x = Net(), torch.rand(20, 20, requires_grad=True)
        recorder.take()
        model(x)
        phases = [e["phase"] for e in allocs(recorder.take()) if e["size"] == 4 * 400]
        assert BACKWARD in phases
        assert phases[-3:] == [FORWARD] * 3
    finally:
        recorder.detach()


@pytest.mark.parametrize("mode", ["full", "lite"])
def test_each_backward_of_each_thread_ends(library, mode):
    recorder = Recorder(library).attach(mode)

    def train():
        weight = torch.rand(20, 20, requires_grad=True)
        for _ in range(10):
            (weight * 2).square().sum().backward()

    try:
        recorder.take()
        threads = [threading.Thread(target=train) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        events = recorder.take()
        assert len(marks(events, BACKWARD_BEGIN)) == len(marks(events, BACKWARD_END)) == 30
    finally:
        recorder.detach()

"""Whether autograd records the operators that allocate, and whether they have built a node."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from watching import BACKWARD, allocs

UNKNOWN, OFF, ON, BUILT = range(4)


def states(recorder, *, phase=None):
    """The states of the allocations since the last call."""
    return {
        event["autograd"] for event in allocs(recorder.take()) if phase in (None, event["phase"])
    }


def network():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def test_a_forward_builds_nodes_before_it_allocates(recorder):
    net, x = network(), torch.randn(2, 8)
    recorder.forget()
    y = net(x)
    assert states(recorder) == {BUILT}
    y.square().sum()
    assert states(recorder) == {BUILT}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_autograd_may_be_off(recorder, mode):
    net, x = network(), torch.randn(2, 8)
    recorder.forget()
    with mode():
        net(x).square().sum()
        torch.randn(8)
    assert states(recorder) == {OFF}
    net(x)
    assert states(recorder) == {BUILT}


def test_a_frozen_model_builds_no_node(recorder):
    net, x = network().requires_grad_(False), torch.randn(2, 8)
    recorder.forget()
    net(x).square().sum()
    torch.randn(8)
    assert states(recorder) == {ON}


def test_a_module_may_turn_autograd_off_and_on(recorder):
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen, self.trained = nn.Linear(8, 16), nn.Linear(16, 4)

        def forward(self, x):
            with torch.no_grad():
                x = self.frozen(x)
            return self.trained(x)

    net, x = Partly(), torch.randn(2, 8)
    recorder.forget()
    net(x)
    by_layer = {event["layer"]: event["autograd"] for event in allocs(recorder.take())}
    assert by_layer == {"Partly.frozen": OFF, "Partly.trained": BUILT}


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x.cos())
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def test_a_function_hides_autograd_from_its_operators(recorder):
    x = torch.randn(8, requires_grad=True)
    recorder.forget()
    Sine.apply(x)
    assert states(recorder) == {UNKNOWN}
    x.exp()
    assert states(recorder) == {BUILT}
    with torch.no_grad():
        Sine.apply(x)
        x.exp()
    assert states(recorder) == {OFF}


def test_in_a_backward_it_is_known_of_what_a_checkpoint_runs_again(recorder):
    net, x = network(), torch.randn(2, 8, requires_grad=True)
    recorder.forget()
    net(x).sum().backward()
    assert states(recorder, phase=BACKWARD) == {UNKNOWN}
    checkpoint(net, x, use_reentrant=True).sum().backward()
    assert states(recorder, phase=BACKWARD) == {UNKNOWN, BUILT}
    with torch.no_grad():
        net(x)
    assert states(recorder) == {OFF}


def test_a_scripted_model_hides_its_graph(recorder):
    """TorchScript builds one node for several operators, and detaches their inputs."""

    def gated(x, w):
        return (torch.sigmoid(x) * torch.tanh(w) + x * w).relu()

    with torch.jit.fuser("fuser0"):
        scripted = torch.jit.script(gated)
        x = torch.randn(64, requires_grad=True)
        w = torch.randn(64, requires_grad=True)
        for _ in range(4):
            scripted(x, w)
        recorder.forget()
        y = scripted(x, w)
        found = states(recorder)
    assert y.grad_fn is not None
    assert ON not in found and OFF not in found


def test_memory_outside_of_operators_has_no_state(recorder):
    recorder.forget()
    torch.UntypedStorage(4096)
    assert states(recorder) == {UNKNOWN}

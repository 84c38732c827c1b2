"""The lines of Python code that backward runs: hooks, and the backward of an autograd.Function."""

import gc
import inspect
import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from watching import BACKWARD, allocs

SIZE = 4 * 1003  # bytes that a hook allocates; no other allocation has this size


def make():
    return torch.empty(1003)


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        first = torch.empty(1003)  # the first line
        second = torch.empty(1003)  # the second line
        return grad * 2 + 0 * (first.numel() - second.numel())


def user_lines(recorder, event):
    """The lines in this file, innermost first."""
    return [line for file, line, _ in recorder.stack(event) if file == __file__]


def made_in_backward(recorder, size=SIZE):
    found = [e for e in allocs(recorder.take(), phase=BACKWARD) if e["size"] == size]
    assert found
    return found


def test_each_line_of_a_function_counts(recorder):
    Doubled.apply(torch.randn(7, requires_grad=True) * 1.0).sum().backward()
    first, second = made_in_backward(recorder)
    here = line_of(test_each_line_of_a_function_counts, "Doubled.apply")
    # As if forward had called it: the layer and the operator are also those of the forward.
    assert user_lines(recorder, first)[:2] == [line_of(Doubled, "the first line"), here]
    assert user_lines(recorder, second)[:2] == [line_of(Doubled, "the second line"), here]
    assert first["outer_op"] == "DoubledBackward"


def run_tensor_hook(model, hook):
    x = model(torch.randn(3, 5))
    x.register_hook(hook)
    return x.sum()


def run_module_hook(model, hook):
    model.register_full_backward_hook(hook)
    return model(torch.randn(3, 5, requires_grad=True)).sum()


def run_module_pre_hook(model, hook):
    model.register_full_backward_pre_hook(hook)
    return model(torch.randn(3, 5, requires_grad=True)).sum()


def run_accumulate_hook(model, hook):
    model.weight.register_post_accumulate_grad_hook(hook)
    return model(torch.randn(3, 5)).sum()


def run_node_hook(model, hook):
    x = model(torch.randn(3, 5))
    x.grad_fn.register_hook(hook)
    return x.sum()


def run_unpack(model, hook):
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: (hook(), x)[1]):
        return model(torch.randn(3, 5)).exp().sum()


@pytest.mark.parametrize(
    "run",
    [
        run_tensor_hook,
        run_module_hook,
        run_module_pre_hook,
        run_accumulate_hook,
        run_node_hook,
        run_unpack,
    ],
)
def test_the_line_of_a_hook_is_its_own(recorder, run):
    def hook(*_):
        make()

    loss = run(nn.Linear(5, 4), hook)
    recorder.take()
    loss.backward()
    expected = [line_of(make, "torch.empty"), line_of(hook, "make()")]
    for event in made_in_backward(recorder):
        assert user_lines(recorder, event)[:2] == expected


def test_what_a_node_allocates_itself_has_the_line_of_forward(recorder):
    x = torch.randn(1003, requires_grad=True) * 1.0
    y = x.sin()  # the forward
    y.register_hook(lambda grad: make() + grad)  # the hook
    recorder.take()
    y.sum().backward()
    function = test_what_a_node_allocates_itself_has_the_line_of_forward
    lines = [user_lines(recorder, event)[0] for event in made_in_backward(recorder)]
    hook = [line_of(make, "torch.empty"), line_of(function, "# the hook")]
    at = lines.index(hook[0])
    assert lines[at : at + 2] == hook
    assert lines[at + 2] == line_of(function, "# the forward")


def test_code_of_packages_alone_keeps_the_line_of_forward(recorder):
    """Recomputation runs Python code of torch; here it runs only operators of the layer."""
    net = nn.Sequential(nn.Linear(5, 1003), nn.Tanh())
    y = checkpoint(net, torch.randn(1, 5, requires_grad=True), use_reentrant=False)
    recorder.take()
    y.sum().backward()
    forward = line_of(test_code_of_packages_alone_keeps_the_line_of_forward, "y = checkpoint")
    backward = line_of(test_code_of_packages_alone_keeps_the_line_of_forward, ".backward()")
    for event in made_in_backward(recorder):
        assert user_lines(recorder, event)[0] in (forward, backward)
        assert event["layer"].startswith("Sequential")


def test_a_hook_whose_code_is_gone_when_its_node_ends(recorder):
    source = "def hook(grad):\n    handle.remove()\n\n    torch.empty(1003)\n"
    for _ in range(50):
        x = torch.randn(7, requires_grad=True) * 1.0
        names = {"torch": torch}
        exec(compile(source, "once.py", "exec"), names)
        names["handle"] = x.register_hook(names.pop("hook"))
        loss = x.sum()
        recorder.take()
        loss.backward()
        (event,) = made_in_backward(recorder)
        assert recorder.stack(event)[0][:2] == ("once.py", 4)
        names.clear()
        gc.collect()


def test_a_backward_in_a_backward(recorder):
    def hook(grad):
        with torch.enable_grad():
            inner = Doubled.apply(torch.randn(7, requires_grad=True) * 1.0)
            inner.sum().backward()
        return grad + 0 * make().numel()

    x = torch.randn(7, requires_grad=True) * 1.0
    x.register_hook(hook)
    recorder.take()
    x.sum().backward()
    lines = [user_lines(recorder, event)[0] for event in made_in_backward(recorder)]
    assert lines == [
        line_of(Doubled, "the first line"),
        line_of(Doubled, "the second line"),
        line_of(make, "torch.empty"),
    ]


def test_a_backward_on_another_thread(recorder):
    """This thread does not know forwards of other threads: the line stays that of the forward."""
    loss = Doubled.apply(torch.randn(7, requires_grad=True) * 1.0).sum()
    recorder.take()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    here = line_of(test_a_backward_on_another_thread, "Doubled.apply")
    for event in made_in_backward(recorder):
        assert user_lines(recorder, event)[0] == here


def test_the_graph_of_a_backward_has_the_line_of_forward(recorder):
    """An allocation between two operators of a hook does not set the line of their nodes."""
    x = torch.randn(1003, requires_grad=True) * 1.0
    y = x.sin()  # the forward
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    recorder.take()
    grad.sum().backward()
    forward = line_of(test_the_graph_of_a_backward_has_the_line_of_forward, "# the forward")
    assert forward in {user_lines(recorder, e)[0] for e in made_in_backward(recorder)}

"""Programs that keep memory after its last use, each with its fix.

    plimsoll run --uses always -m tests.uses.fixes NAME before|after

The fixed program frees each tensor after its last use. Its peak must be the reachable peak of the
program before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

FIXES: dict[str, Callable[[bool], None]] = {}


def fix(function: Callable[[bool], None]) -> Callable[[bool], None]:
    FIXES[function.__name__] = function
    return function


def train(optimizer: torch.optim.Optimizer, loss: torch.Tensor, fixed: bool) -> None:
    """The fix frees the gradients after the step, and not only before the next backward."""
    if not fixed:
        optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if fixed:
        optimizer.zero_grad()


@fix
def locals_of_a_long_forward(fixed):
    weights = [torch.randn(256, 256) for _ in range(3)]

    @torch.no_grad()
    def forward(box):
        x = box.pop() if fixed else box[0]
        first = x @ weights[0]
        if fixed:
            del x
        second = first.relu()
        if fixed:
            del first
        third = second @ weights[1]
        if fixed:
            del second
        fourth = third.relu()
        if fixed:
            del third
        fifth = fourth @ weights[2]
        if fixed:
            del fourth
        return fifth.softmax(-1)

    for _ in range(3):
        result = forward([torch.randn(4096, 256)])
        if fixed:
            del result


@fix
def argument_held_by_its_caller(fixed):
    weight = torch.randn(512, 512)

    def total(box):
        x = box.pop() if fixed else box[0]
        hidden = x @ weight
        if fixed:
            del x
        hidden = hidden.sin()
        hidden = hidden @ weight
        return (hidden * hidden).sum()

    with torch.no_grad():
        for _ in range(4):
            total([torch.randn(8192, 512)])


@fix
def list_of_outputs(fixed):
    """A metric reads one number of each output."""
    model = nn.Linear(64, 1024)
    kept = []
    with torch.no_grad():
        for _ in range(12):
            out = model(torch.randn(512, 64))
            kept.append(out.mean() if fixed else out)
            if not fixed:
                out.mean()
            else:
                del out


@fix
def gradients_after_the_step(fixed):
    model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(6)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        train(optimizer, model(torch.randn(64, 512)).square().mean(), fixed)
        with torch.no_grad():
            points = torch.randn(1024, 64)
            torch.cdist(points, points).mean()
            if fixed:
                del points


@fix
def graph_of_a_logged_loss(fixed):
    model = nn.Sequential(nn.Linear(64, 1024), nn.GELU(), nn.Linear(1024, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    log = []
    for _ in range(8):
        x = torch.randn(512, 64)
        loss = (model(x) - x).sin().mean()
        with torch.set_grad_enabled(not fixed):
            log.append(model(x).sin().mean())
        if fixed:
            del x
        train(optimizer, loss, fixed)


@fix
def outputs_kept_while_backward_runs(fixed):
    """Autograd keeps the output too: `del` gains nothing."""
    model = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 2048))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        x = torch.randn(2048, 64)
        out = model(x)
        loss = out.sin().mean()
        if fixed:
            del out, x
        train(optimizer, loss, fixed)


@fix
def outputs_of_a_teacher(fixed):
    teacher, student = nn.Linear(256, 2048).requires_grad_(False), nn.Linear(256, 2048)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    targets = []
    for _ in range(8):
        x = torch.randn(512, 256)
        target = teacher(x)
        if not fixed:
            targets.append(target)
        difference = student(x) - target
        if fixed:
            del target, x
        loss = difference.square().mean()
        if fixed:
            del difference
        train(optimizer, loss, fixed)


@fix
def dictionary_of_last_batches(fixed):
    model = nn.Linear(512, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    last = {}
    for step in range(16):
        x = torch.randn(1024, 512)
        if not fixed:
            last[step % 6] = x
        loss = model(x).square().mean()
        if fixed:
            del x
        train(optimizer, loss, fixed)


@fix
def attribute_of_a_module(fixed):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 2048), nn.Linear(2048, 8)

        def forward(self, box):
            x = box.pop()  # the caller holds no reference
            hidden = self.inner(x)
            if fixed:
                del x
            else:
                self.hidden = hidden
            hidden = functional.relu(hidden)
            return [self.outer(hidden)]

    model = nn.Sequential(*(Block() for _ in range(4)))
    with torch.no_grad():
        for _ in range(4):
            model([torch.randn(512, 8)])


@fix
def sample_in_a_closure(fixed):
    model = nn.Linear(256, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    messages = []
    for _ in range(10):
        x = torch.randn(1024, 256)
        mean = x.mean().item()
        messages.append((lambda mean=mean: mean) if fixed else (lambda x=x: x.mean()))
        loss = model(x).square().mean()
        if fixed:
            del x
        train(optimizer, loss, fixed)


@fix
def exception_with_its_frames(fixed):
    failures = []

    def check(count):
        scores = torch.randn(512, 1024)
        if not scores.sum().isnan().item():
            raise ValueError(count)

    for count in range(8):
        try:
            check(count)
        except ValueError as error:
            failures.append(str(error) if fixed else error)


@fix
def batch_before_while_the_next_is_made(fixed):
    model = nn.Linear(1024, 16)
    with torch.no_grad():
        for _ in range(6):
            x = torch.randn(2048, 1024)
            model(x)
            if fixed:
                del x


@fix
def results_of_a_validation(fixed):
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    results = []
    for _ in range(3):
        with torch.no_grad():
            for _ in range(8):
                results.append(model(torch.randn(256, 64)))
            torch.stack([each.mean() for each in results]).mean().item()
            if fixed:
                results.clear()
        for _ in range(4):
            train(optimizer, model(torch.randn(1024, 64)).square().mean(), fixed)
        results.clear()


@fix
def snapshot_that_nothing_reads(fixed):
    model = nn.Sequential(*(nn.Linear(384, 384, bias=False) for _ in range(6)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    snapshots = []
    for _ in range(6):
        if not fixed:
            snapshots.append([each.detach().clone() for each in model.parameters()])
        train(optimizer, model(torch.randn(64, 384)).square().mean(), fixed)


@fix
def hidden_states_of_a_network(fixed):
    model = nn.LSTM(64, 256)
    states = []
    state = None
    with torch.no_grad():
        for _ in range(12):
            x = torch.randn(4, 512, 64)
            out, state = model(x, state)
            if fixed:
                del x, out
            else:
                states.append((out, state))


def main() -> None:
    name, version = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    FIXES[name](version == "after")


if __name__ == "__main__":
    main()

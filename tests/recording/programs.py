"""Small training programs, each with one feature that is difficult for memory tools. A program is a
generator that yields its (modules, optimizers) at each step boundary.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

Held = tuple[list[nn.Module], list[Any]]
Program = Callable[[], Iterator[Held]]

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers)


def train(model: nn.Module, optimizer: Any, steps: int = 3, width: int = 16) -> Iterator[Held]:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(8, width)).square().mean()
        loss.backward()
        optimizer.step()
        del loss
        yield [model], [optimizer]


@program
def plain() -> Iterator[Held]:
    model = mlp(16, 32, 4)
    yield from train(model, torch.optim.Adam(model.parameters()))


@program
def loss_kept() -> Iterator[Held]:
    model, kept = mlp(16, 32, 4), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        kept.append(model(torch.randn(8, 16)))
        optimizer.step()
        yield [model], [optimizer]


@program
def views_and_in_place() -> Iterator[Held]:
    model = mlp(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        x = torch.randn(8, 16)
        x.mul_(2).add_(1)
        y = model(x.view(4, 2, 16).transpose(0, 1).reshape(8, 16))
        kept = y[:, :2].detach()
        y = y.clone()
        y[:, 0] = 0
        y.sum().backward()
        optimizer.step()
        yield [model], [optimizer]
        del kept


@program
def resized() -> Iterator[Held]:
    model = mlp(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    work = torch.empty(0)
    for step in range(4):
        work.resize_(1000 * (step + 1))
        work.zero_()
        storage = torch.empty(64).untyped_storage()
        storage.resize_(1 << (10 + step))
        yield from train(model, optimizer, steps=1)
        storage.resize_(0)
        yield [model], [optimizer]


@program
def checkpointed() -> Iterator[Held]:
    blocks = nn.ModuleList([mlp(16, 16), mlp(16, 16), mlp(16, 16)])
    optimizer = torch.optim.AdamW(blocks.parameters())
    for use_reentrant in (False, True, False):
        optimizer.zero_grad()
        x = torch.randn(8, 16, requires_grad=True)
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=use_reentrant)
        x.sum().backward()
        optimizer.step()
        del x
        yield [blocks], [optimizer]


@program
def autocast() -> Iterator[Held]:
    model = mlp(16, 32, 16)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.randn(8, 16)).float().square().mean()
        loss.backward()
        optimizer.step()
        del loss
        yield [model], [optimizer]


@program
def several_optimizers() -> Iterator[Held]:
    generator, critic = mlp(16, 32, 16), mlp(16, 8, 1)
    of_generator = torch.optim.Adam(generator.parameters())
    of_critic = torch.optim.RMSprop(critic.parameters(), momentum=0.9, centered=True)
    for _ in range(3):
        of_critic.zero_grad()
        critic(generator(torch.randn(8, 16)).detach()).mean().backward()
        of_critic.step()
        of_generator.zero_grad()
        critic(generator(torch.randn(8, 16))).mean().neg().backward()
        of_generator.step()
        yield [generator, critic], [of_generator, of_critic]


@program
def frozen_and_shared() -> Iterator[Held]:
    model = mlp(16, 16, 16)
    model[0].weight.requires_grad_(False)
    model[2].weight = model[0].weight
    model.register_buffer("scale", torch.ones(100))
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    yield from train(model, optimizer)


@program
def accumulated() -> Iterator[Held]:
    model = mlp(16, 32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        for _ in range(3):
            (model(torch.randn(8, 16)).square().mean() / 3).backward()
        optimizer.step()
        yield [model], [optimizer]
        optimizer.zero_grad(set_to_none=False)


class Breaks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp(16, 16)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        x = self.inner(x)
        if self.calls % 2:
            raise ValueError("planted")
        return x


@program
def exceptions_in_forward() -> Iterator[Held]:
    model = Breaks()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(4):
        optimizer.zero_grad()
        with contextlib.suppress(ValueError):
            model(torch.randn(8, 16)).sum().backward()
        optimizer.step()
        yield [model], [optimizer]


@program
def data_loader() -> Iterator[Held]:
    model = mlp(16, 32, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(TensorDataset(torch.randn(32, 16)), batch_size=8):
        optimizer.zero_grad()
        model(batch[0]).sum().backward()
        optimizer.step()
        yield [model], [optimizer]


@program
def copied_and_deleted() -> Iterator[Held]:
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16))
    optimizer = torch.optim.Adam(model.parameters())
    average = copy.deepcopy(model)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).sum().backward()
        optimizer.step()
        with torch.no_grad():
            for mean, now in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(now, 0.1)
            average(torch.randn(8, 16))
        yield [model, average], [optimizer]
    del average
    yield [model], [optimizer]
    optimizer.zero_grad()
    del model, optimizer
    other = mlp(16, 8)
    yield from train(other, torch.optim.SGD(other.parameters(), lr=0.1))


@program
def state_loaded() -> Iterator[Held]:
    model = mlp(16, 32, 4)
    optimizer = torch.optim.Adam(model.parameters())
    yield from train(model, optimizer, steps=2)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    yield from train(model, optimizer, steps=1)
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    del saved
    yield from train(model, optimizer, steps=2)


@program
def parameters_replaced() -> Iterator[Held]:
    """Densification as in Gaussian splatting: bare parameters and their state are grown by hand."""
    points = nn.Parameter(torch.randn(10, 3))
    optimizer = torch.optim.Adam([{"params": [points], "name": "points"}])
    for step in range(4):
        optimizer.zero_grad()
        points.square().sum().backward()
        optimizer.step()
        yield [], [optimizer]
        state = optimizer.state.pop(points)
        more = torch.randn(5 + step, 3)
        points = nn.Parameter(torch.cat([points.detach(), more]))
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = torch.cat([state[name], torch.zeros_like(more)])
        optimizer.param_groups[0]["params"][0] = points
        optimizer.state[points] = state
        del state, more


@program
def without_optimizer() -> Iterator[Held]:
    model = mlp(16, 32, 4)
    for _ in range(3):
        model(torch.randn(8, 16)).square().mean().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.1)
        yield [model], []
        for parameter in model.parameters():
            parameter.grad = None


@program
def lbfgs() -> Iterator[Held]:
    model = mlp(16, 8)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, history_size=4)
    x = torch.randn(8, 16)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
        yield [model], [optimizer]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.layers = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False
        )
        self.head = nn.Linear(16, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embed(tokens)))


@program
def transformer() -> Iterator[Held]:
    model = Attention()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        tokens = torch.randint(50, (4, 10))
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        del loss
        yield [model], [optimizer]


@program
def convolutions() -> Iterator[Held]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(8 * 16, 4),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 3, 8, 8)).sum().backward()
        optimizer.step()
        yield [model], [optimizer]


@program
def recurrent() -> Iterator[Held]:
    model = nn.LSTM(16, 24, num_layers=2, batch_first=True)
    optimizer = torch.optim.Adam(model.parameters())
    hidden = None
    for _ in range(3):
        optimizer.zero_grad()
        out, hidden = model(torch.randn(4, 7, 16), hidden)
        hidden = tuple(h.detach() for h in hidden)
        out.sum().backward()
        optimizer.step()
        del out
        yield [model], [optimizer]


@program
def double_backward() -> Iterator[Held]:
    model = mlp(16, 16, 1)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        x = torch.randn(8, 16, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (slope.norm(dim=1) - 1).square().mean().backward()
        optimizer.step()
        del slope, x
        yield [model], [optimizer]

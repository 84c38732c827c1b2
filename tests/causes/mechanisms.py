"""Programs with one cause planted in each, written with the repairs after the second list, in other
idioms and architectures than it. expected_mechanisms.tsv says what is expected."""

from __future__ import annotations

import collections

import torch
from tests.causes.training import PROGRAMS, standalone, step_of
from torch import nn
from torch.nn import functional

BEFORE = frozenset(PROGRAMS)


class Eye(nn.Module):
    """A small encoder: four allocations a forward."""

    def __init__(self, width=32):
        super().__init__()
        self.first = nn.Conv1d(4, width, 9, stride=4, padding=4)
        self.second = nn.Conv1d(width, width, 9, stride=4, padding=4)

    def forward(self, x):
        x = functional.silu(self.first(x))
        return functional.silu(self.second(x)).mean(-1)


@standalone("curiosity")
def rollout_with_graphs(updates=6):
    """The features of a rollout keep their graphs; the update runs the encoder again."""
    eye, head = Eye(), nn.Linear(32, 6)
    optimizer = torch.optim.Adam([*eye.parameters(), *head.parameters()])
    for _ in range(updates):
        rollout = []
        for _ in range(16):
            seen = torch.rand(16, 4, 2048)
            rollout.append((seen, eye(seen)))
        for seen, features in rollout:
            step_of(optimizer, functional.mse_loss(head(eye(seen)), features.detach()[:, :6]))


@standalone("curiosity")
def latents_after_the_forward(steps=30):
    """The latent that is kept is made between a forward and its backward."""
    eye, head = Eye(), nn.Linear(32, 6)
    optimizer = torch.optim.SGD([*eye.parameters(), *head.parameters()], lr=0.01)
    kept = collections.deque(maxlen=10)
    for _ in range(steps):
        loss = head(eye(torch.rand(16, 4, 2048))).square().mean()
        kept.append(eye(torch.rand(16, 4, 2048)))
        step_of(optimizer, loss + torch.stack([each.detach().mean() for each in kept]).mean())


class Denoiser(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.middle = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, time):
        x = functional.gelu(self.enter(x) + time)
        for layer in self.middle:
            x = x + functional.gelu(layer(x))
        return self.leave(x)


@standalone("denoiser")
def sampling_with_graph(steps=12):
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters())

    def draw(rounds=30):
        x = torch.randn(4, 3, 32, 32)
        for time in range(rounds, 0, -1):
            x = x - model(x, time / rounds) / rounds
        return x

    for step in range(steps):
        clean = torch.rand(8, 3, 32, 32)
        noise = torch.randn_like(clean)
        step_of(optimizer, functional.mse_loss(model(clean + noise, 1.0), noise))
        if step % 6 == 5:
            print(draw().std().item())


@standalone("dynamics")
def evaluation_rolled_out_with_graph(steps=12):
    model = nn.Sequential(
        nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 256)
    )
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        state = torch.randn(64, 256)
        step_of(optimizer, functional.mse_loss(model(state), state.roll(1, -1)))
    state = first = torch.randn(64, 256)
    for _ in range(120):
        state = model(state)
    print((state - first).abs().mean().item())
    del state
    step_of(optimizer, functional.mse_loss(model(first), first))


@standalone("two_banks")
def both_banks_concatenated(steps=30):
    """Two modalities; one comprehension appends to the bank of each."""
    encoders = nn.ModuleDict({"image": nn.Linear(512, 128), "text": nn.Linear(256, 96)})
    optimizer = torch.optim.SGD(encoders.parameters(), lr=0.01)
    banks = {name: torch.empty(0, layer.out_features) for name, layer in encoders.items()}
    for _ in range(steps):
        made = {
            name: layer(torch.randn(512, layer.in_features)) for name, layer in encoders.items()
        }
        banks = {name: torch.cat([banks[name], made[name].detach()]) for name in banks}
        step_of(optimizer, sum(each.square().mean() for each in made.values()))


@standalone("hidden_histories")
def histories_stacked(steps=30):
    """The states of four recurrent layers, each stacked with all states before it."""
    cells = nn.ModuleList(nn.GRUCell(128, 128) for _ in range(4))
    optimizer = torch.optim.SGD(cells.parameters(), lr=0.01)
    histories = [torch.zeros(1, 256, 128) for _ in cells]
    for _ in range(steps):
        x = torch.randn(256, 128)
        for i, cell in enumerate(cells):
            x = cell(x, histories[i][-1])
            histories[i] = torch.cat([histories[i], x.detach()[None]])
        step_of(optimizer, x.square().mean())


NAMES = [name for name in PROGRAMS if name not in BEFORE]

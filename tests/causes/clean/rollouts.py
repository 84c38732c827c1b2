"""Correct rollouts, samplers, banks and buffers."""

from __future__ import annotations

import collections

import torch
from tests.causes.graph.rollouts import Denoiser, Eye
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch import nn
from torch.nn import functional


@standalone("curiosity")
def rollout_without_graphs(updates=6):
    eye, head = Eye(), nn.Linear(32, 6)
    optimizer = torch.optim.Adam([*eye.parameters(), *head.parameters()])
    for _ in range(updates):
        rollout = []
        for _ in range(16):
            seen = torch.rand(16, 4, 256)
            with torch.no_grad():
                rollout.append((seen, eye(seen)))
        for seen, features in rollout:
            step_of(optimizer, functional.mse_loss(head(eye(seen)), features[:, :6]))


class Gaussian(nn.Module):
    """Returns most of the tensors that it allocates."""

    def __init__(self):
        super().__init__()
        self.hidden, self.mean, self.spread = (nn.Linear(256, 256) for _ in range(3))

    def forward(self, x):
        h = torch.tanh(self.hidden(x))
        return h, self.mean(h), self.spread(h)


@standalone("gaussian")
def outputs_of_most_layers_kept(steps=40):
    """A buffer of tuples without graphs: three of the four allocations in each forward."""
    model = Gaussian()
    optimizer = torch.optim.Adam(model.parameters())
    kept = collections.deque(maxlen=16)
    for step in range(steps):
        x = torch.randn(512, 256)
        with torch.no_grad():
            kept.append(model(x))
        h, mean, spread = model(x)
        before = kept[step * 5 % len(kept)]
        step_of(optimizer, (h.mean() + mean - before[1] + spread - before[2]).square().mean())


@standalone("denoiser")
def sampling_without_graph(steps=12):
    """Every picture of the sampling is kept for a film."""
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters())

    @torch.no_grad()
    def draw(rounds=30):
        film = [torch.randn(4, 3, 32, 32)]
        for time in range(rounds, 0, -1):
            film.append(film[-1] - model(film[-1], time / rounds) / rounds)
        return film

    for step in range(steps):
        clean = torch.rand(32, 3, 32, 32)
        noise = torch.randn_like(clean)
        step_of(optimizer, functional.mse_loss(model(clean + noise, 1.0), noise))
        if step % 6 == 5:
            draw()


@standalone("unet_small")
def small_module_at_its_peak(steps=8):
    """An evaluation without a graph, in the middle of a module of three layers."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.Tanh(), nn.Conv2d(16, 3, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x = torch.rand(2, 3, 64, 64)
        step_of(optimizer, functional.mse_loss(model(x), x))
    with torch.no_grad():
        for _ in range(4):
            model(torch.rand(16, 3, 128, 128))
    step_of(optimizer, functional.mse_loss(model(x), x))


@standalone("two_banks")
def banks_cut_to_a_window(steps=40):
    encoders = nn.ModuleList([nn.Linear(512, 128), nn.Linear(256, 96)])
    optimizer = torch.optim.SGD(encoders.parameters(), lr=0.01)
    banks = [torch.empty(0, layer.out_features) for layer in encoders]
    for _ in range(steps):
        made = [layer(torch.randn(512, layer.in_features)) for layer in encoders]
        for i in range(2):
            banks[i] = torch.cat([banks[i], made[i].detach()])[-2048:]
        step_of(optimizer, sum(each.square().mean() for each in made))


@standalone("segmentation")
def validation_gathered(epochs=3):
    """The outputs of a validation are kept for its score: no training step lies between them."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for _ in range(12):
            picture, label = torch.rand(8, 3, 64, 64), torch.randint(4, (8, 64, 64))
            step_of(optimizer, functional.cross_entropy(model(picture), label))
        with torch.no_grad():
            made = [model(torch.rand(2, 3, 64, 64)).argmax(1) for _ in range(10)]
        torch.cat(made).float().mean().item()


@standalone("replay")
def transitions_in_a_ring(steps=80):
    """A replay buffer of fixed length, of large observations."""
    model = nn.Sequential(nn.Linear(4096, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters())
    ring = collections.deque(maxlen=12)
    for step in range(steps):
        ring.append(torch.randn(16, 4096))
        step_of(optimizer, model(ring[step * 5 % len(ring)]).square().mean())


@standalone("two_speeds")
def second_optimizer_steps_seldom(steps=32):
    """The gradients of one part are gathered over eight batches."""
    fast, slow = nn.Linear(1024, 1024), nn.Linear(1024, 1024)
    fast_optimizer = torch.optim.SGD(fast.parameters(), lr=0.01)
    slow_optimizer = torch.optim.SGD(slow.parameters(), lr=0.01)
    for step in range(steps):
        fast(torch.relu(slow(torch.randn(64, 1024)))).square().mean().backward()
        fast_optimizer.step()
        fast_optimizer.zero_grad()
        if step % 8 == 7:
            slow_optimizer.step()
            slow_optimizer.zero_grad()


@standalone("phases")
def optimizer_replaced(phases=6, steps=4):
    model = nn.Sequential(nn.Linear(600, 800), nn.ReLU(), nn.Linear(800, 600))
    for phase in range(phases):
        optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1**phase, momentum=0.9)
        for _ in range(steps):
            x = torch.randn(32, 600)
            step_of(optimizer, functional.mse_loss(model(x), x))


@standalone("pyramid")
def features_of_all_stages(steps=10):
    """A backbone that returns every stage, and a bank of these outputs without graphs."""

    class Stages(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = [(3, 16), (16, 32), (32, 64), (64, 64)]
            self.stages = nn.ModuleList(nn.Conv2d(i, o, 3, 2, 1) for i, o in sizes)

        def forward(self, x):
            made = []
            for stage in self.stages:
                x = functional.relu(stage(x))
                made.append(x)
            return made

    backbone, head = Stages(), nn.Linear(64, 5)
    optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.01)

    def train():
        top = backbone(torch.rand(4, 3, 64, 64))[-1]
        step_of(optimizer, head(top.mean((2, 3))).square().mean())

    for _ in range(steps):
        train()
    with torch.no_grad():
        bank = [backbone(torch.rand(8, 3, 128, 128)) for _ in range(12)]
    for _ in range(3):
        train()
    del bank


@standalone("stateful")
def outputs_and_states_kept(epochs=4):
    """A recurrent network evaluated chunk by chunk; its outputs and states are kept."""
    cell, head = nn.LSTM(32, 256, batch_first=True), nn.Linear(256, 32)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
    for _ in range(epochs):
        for _ in range(8):
            x = torch.randn(8, 20, 32)
            step_of(optimizer, functional.mse_loss(head(cell(x)[0]), x))
        state, kept = None, []
        with torch.no_grad():
            for _ in range(60):
                out, state = cell(torch.randn(64, 4, 32), state)
                kept.append((out, state))


@standalone("curriculum")
def fields_get_longer(steps=30):
    """One comprehension joins six fields of a batch, all of them longer at every step."""
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = {}
    for step in range(steps):
        length = 100 + 40 * step
        parts = {i: [torch.randn(4, length, 8 * i) for _ in range(2)] for i in range(1, 7)}
        batch = {i: torch.cat(halves) for i, halves in parts.items()}
        step_of(optimizer, model(batch[1]).square().mean())

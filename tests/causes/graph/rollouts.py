"""Rollouts, samplers and teachers that build a graph which no backward uses."""

from __future__ import annotations

import collections

import torch
from tests.causes.models import Field, Mixer, render
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch import nn
from torch.nn import functional


class Eye(nn.Module):
    """A small encoder: four allocations in each forward."""

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
    """The retained latent is allocated between a forward and its backward."""
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
            draw().std().item()


@standalone("dynamics")
def evaluation_rolled_out_with_graph(steps=12):
    model = nn.Sequential(
        nn.Linear(256, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 256)
    )
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        state = torch.randn(64, 256)
        step_of(optimizer, functional.mse_loss(model(state), state.roll(1, -1)))
    state = first = torch.randn(64, 256)
    for _ in range(120):
        state = model(state)
    (state - first).abs().mean().item()
    del state
    step_of(optimizer, functional.mse_loss(model(first), first))


@standalone("held_out_nerf")
def full_image_with_graph(steps=16):
    field = Field()
    optimizer = torch.optim.Adam(field.parameters())
    for step in range(steps):
        loss = render(field, torch.randn(64, 3), torch.randn(64, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            image = render(field, torch.randn(1024, 3), torch.randn(1024, 3))
            image.clamp(0, 1).mean().item()


@standalone("held_out_distillation")
def teacher_with_graph(steps=16):
    teacher, student = Mixer(width=384, depth=6), Mixer(width=96, depth=2)
    optimizer = torch.optim.Adam(student.parameters())
    for _ in range(steps):
        x = torch.randn(32, 64, 48)
        wanted = teacher(x)
        got = student(x)
        loss = functional.mse_loss(got, wanted.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

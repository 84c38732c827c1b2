"""Activations of several forwards fill the peak, because one backward comes after all of them."""

from __future__ import annotations

import torch
from tests.causes.models import Mixer, Sine
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch import nn
from torch.nn import functional


@standalone("held_out_pinn")
def second_derivatives(steps=16):
    model = Sine()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x = torch.rand(2048, 2, requires_grad=True)
        u = model(x)
        first = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        second = torch.autograd.grad(first[:, 0].sum(), x, create_graph=True)[0]
        loss = (first[:, 1] - 0.1 * second[:, 0]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@standalone("held_out_mixer_accumulation")
def losses_added_before_backward(steps=12):
    model = Mixer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        losses = []
        for _ in range(8):
            logits = model(torch.randn(8, 64, 48))
            losses.append(functional.cross_entropy(logits, torch.randint(10, (8,))) / 8)
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()


@standalone("meta")
def inner_rounds_with_graph(steps=6):
    """Ten rounds refine the inputs by their gradient, and backward runs through all of them."""
    model = nn.Sequential(nn.Linear(128, 256), nn.Softplus(), nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def refine(x, rounds=10):
        for _ in range(rounds):
            energy = model(x).sum()
            x = x - 0.1 * torch.autograd.grad(energy, x, create_graph=True)[0]
        return x

    for _ in range(steps):
        found = refine(torch.randn(512, 128, requires_grad=True))
        step_of(optimizer, (model(found.detach()) - model(torch.randn(512, 128))).mean())


@standalone("tasks")
def losses_summed_before_backward(steps=6, tasks=16):
    model = nn.Sequential(
        nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        losses = []
        for _ in range(tasks):
            logits = model(torch.randn(512, 64))
            losses.append(functional.cross_entropy(logits, torch.randint(10, (512,))))
        step_of(optimizer, torch.stack(losses).mean())


@standalone("everyday")
def hidden_state_with_its_graph(windows=20):
    """Truncated backpropagation through time without detach: retain_graph=True hides the error."""
    model, head = nn.GRU(32, 128, batch_first=True), nn.Linear(128, 32)
    parameters = [*model.parameters(), *head.parameters()]
    hidden = torch.zeros(1, 16, 128)
    for _ in range(windows):
        x = torch.randn(16, 32, 32)
        y, hidden = model(x, hidden)
        functional.mse_loss(head(y), x).backward(retain_graph=True)
        for parameter in parameters:
            parameter.data.sub_(parameter.grad, alpha=1e-6)
            parameter.grad = None


@standalone("everyday")
def losses_of_sequences_summed(steps=4, sequences=12):
    model = nn.LSTM(32, 128, num_layers=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        loss = 0.0
        for _ in range(sequences):
            loss = loss + model(torch.randn(64, 8, 32))[0].square().mean()
        step_of(optimizer, loss)


@standalone("kept")
def cell_with_retained_graphs(episodes=3, ticks=10):
    """retain_graph=True instead of detach, with a cell that keeps few tensors for each step."""
    cell, head = nn.LSTMCell(32, 128), nn.Linear(128, 32)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=1e-6)
    for _ in range(episodes):
        h = c = torch.zeros(128, 128)
        for _ in range(ticks):
            x = torch.randn(128, 32)
            h, c = cell(x, (h, c))
            functional.mse_loss(head(h), x).backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()

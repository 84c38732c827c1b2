"""Copies of models or of their state fill the peak."""

from __future__ import annotations

import copy
import io

import torch
from tests.causes.models import residual_network
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.nn import functional


def follow(copied, model):
    with torch.no_grad():
        for mine, theirs in zip(copied.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs, 0.01)


@program("mlp", "vit", "moe", wide=True)
def copies_that_follow(architecture):
    training = Training(architecture)
    copies = [copy.deepcopy(training.model) for _ in range(3)]
    for _ in range(3):
        training.step()
        for copied in copies:
            follow(copied, training.model)


@program("transformer", wide=True)
def teacher(architecture):
    training = Training(architecture)
    teachers = [architecture.model().requires_grad_(False) for _ in range(3)]
    for _ in range(3):
        batch = training.batch()
        with torch.no_grad():
            wanted = sum(teacher(*batch) for teacher in teachers)
        training.optimizer.zero_grad()
        functional.mse_loss(training.model(*batch), wanted).backward()
        training.optimizer.step()


@program("transformer", "lstm", wide=True)
def snapshots_of_state(architecture):
    training, best = Training(architecture), []
    for step in range(4):
        training.step()
        if step < 3:
            state = training.model.state_dict()
            best.append({name: value.clone() for name, value in state.items()})


@standalone("held_out_hypernetwork")
def best_models_kept(steps=24):
    model = residual_network(512)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    best = []
    for step in range(steps):
        loss = functional.cross_entropy(model(torch.randn(32, 512)), torch.randint(10, (32,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in (1, 2, 4, 7):
            best.append(copy.deepcopy(model))


@standalone("small_model")
def states_of_all_trials(trials=40):
    """Random search: the state of each trial is kept. The model has 0.6 MB."""
    model = nn.Sequential(nn.Linear(300, 400), nn.Tanh(), nn.Linear(400, 50))
    tried = []
    for _ in range(trials):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p), alpha=0.01)
            score = model(torch.randn(32, 300)).square().mean().item()
        tried.append((score, {n: p.detach().clone() for n, p in model.named_parameters()}))
    return min(score for score, _ in tried)


class Tower(nn.Module):
    def __init__(self, width=512, layers=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


@standalone("evidence")
def ensemble_without_state(steps=8):
    """Each member has its gradients: a third of the peak each, with its parameters."""
    members = [Tower() for _ in range(3)]
    parameters = [each for member in members for each in member.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=1e-3)
    for _ in range(steps):
        x = torch.randn(16, 512)
        step_of(optimizer, sum(functional.mse_loss(member(x), x) for member in members))


@standalone("evidence")
def checkpoint_stays(steps=8):
    """What torch.load returned is live during the whole training."""
    file = io.BytesIO()
    torch.save(Tower().state_dict(), file)
    file.seek(0)
    model = Tower()
    weights = torch.load(file)
    model.load_state_dict(weights)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x = torch.randn(16, 512)
        step_of(optimizer, functional.mse_loss(model(x), x))


def wide_model():
    return nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.Linear(512, 2))


@standalone("everyday")
def folds_with_their_optimizers(folds=8):
    """Cross-validation keeps each fold's model and optimizer."""
    results = []
    for _ in range(folds):
        model = wide_model()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(8):
            step_of(optimizer, model(torch.randn(32, 128)).square().mean())
        results.append((model, optimizer))

"""Models that grow on purpose, in a few stages."""

from __future__ import annotations

import torch
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch import nn
from torch.nn import functional


@standalone("continual")
def head_per_task(tasks=8, steps=10):
    """A head and its optimizer state for each task; earlier heads stay for evaluation."""
    body = nn.Sequential(nn.Linear(256, 512), nn.ReLU())
    heads = nn.ModuleList()
    optimizer = torch.optim.Adam(body.parameters())
    for task in range(tasks):
        heads.append(nn.Linear(512, 800))
        optimizer.add_param_group({"params": list(heads[-1].parameters())})
        for _ in range(steps):
            x = torch.randn(32, 256)
            step_of(optimizer, heads[task](body(x)).square().mean())


@standalone("continual")
def tasks_of_any_length(lengths=(14, 3, 9, 22, 5, 16, 11, 8)):
    """Each task trains until it is learned, so the numbers of steps differ."""
    body = nn.Sequential(nn.Linear(256, 512), nn.ReLU())
    heads = nn.ModuleList()
    for task, steps in enumerate(lengths):
        heads.append(nn.Linear(512, 1200))
        optimizer = torch.optim.SGD([*body.parameters(), *heads[-1].parameters()], lr=0.01)
        for _ in range(steps):
            step_of(optimizer, heads[task](body(torch.randn(32, 256))).square().mean())
        heads[task].zero_grad()


@standalone("progressive")
def block_per_stage(stages=5, steps=9):
    """Generator and discriminator get a block at the beginning of each stage."""
    generator, critic = nn.ModuleList(), nn.ModuleList()
    optimizers = None
    to_rgb, from_rgb = nn.Conv2d(96, 3, 1), nn.Conv2d(3, 96, 1)

    def made(noise):
        x = noise
        for block in generator:
            x = functional.relu(block(functional.interpolate(x, scale_factor=2)))
        return to_rgb(x)

    def judged(x):
        x = from_rgb(x)
        for block in critic:
            x = functional.avg_pool2d(functional.relu(block(x)), 2)
        return x.mean()

    for _ in range(stages):
        generator.append(nn.Conv2d(96, 96, 3, padding=1))
        critic.insert(0, nn.Conv2d(96, 96, 3, padding=1))
        optimizers = [
            torch.optim.Adam([*generator.parameters(), *to_rgb.parameters()]),
            torch.optim.Adam([*critic.parameters(), *from_rgb.parameters()]),
        ]
        for _ in range(steps):
            noise = torch.randn(2, 96, 1, 1)
            step_of(optimizers[1], judged(made(noise).detach()))
            step_of(optimizers[0], -judged(made(noise)))


@standalone("vocabulary")
def tokens_added(steps=60):
    """At four points of the training, the token table is replaced with a larger one."""
    table, head = nn.Embedding(2000, 128), nn.Linear(128, 64)
    for step in range(steps):
        if step in (0, 16, 29, 41, 50):
            grown = nn.Embedding(table.num_embeddings + 1000, 128)
            with torch.no_grad():
                grown.weight[: table.num_embeddings] = table.weight
            table = grown
            optimizer = torch.optim.Adam([*table.parameters(), *head.parameters()])
        words = torch.randint(table.num_embeddings, (64, 16))
        step_of(optimizer, head(table(words)).square().mean())


@standalone("adapters")
def adapter_per_customer(customers=7, steps=8):
    """Each customer's adapter stays in the model; the base is frozen."""
    base = nn.Linear(600, 600).requires_grad_(False)
    adapters = nn.ModuleDict()
    for customer in range(customers):
        adapter = nn.Sequential(nn.Linear(600, 64), nn.Linear(64, 600))
        adapters[f"customer{customer}"] = adapter
        optimizer = torch.optim.AdamW(adapter.parameters())
        for _ in range(steps):
            x = torch.randn(32, 600)
            step_of(optimizer, (base(x) + adapter(x)).square().mean())


@standalone("cascade")
def layers_one_by_one(layers=12, steps=4):
    """Each layer is trained alone and then frozen: greedy layer-wise training."""
    stack = nn.ModuleList()
    for _ in range(layers):
        layer = nn.Linear(400, 400)
        stack.append(layer)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.01, momentum=0.9)
        for _ in range(steps):
            x = torch.randn(32, 400)
            with torch.no_grad():
                for before in stack[:-1]:
                    x = torch.relu(before(x))
            step_of(optimizer, layer(x).square().mean())
        layer.requires_grad_(False).zero_grad()

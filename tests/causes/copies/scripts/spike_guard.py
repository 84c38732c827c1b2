"""Copies of model and optimizer, to go back when the loss explodes: a queue of four."""

import collections
import copy

import torch
from torch import nn


class SpikeGuard:
    """Go back a few steps when the loss explodes."""

    def __init__(self, model, optimizer, keep=4, every=2, factor=3.0):
        self.model, self.optimizer = model, optimizer
        self.snapshots = collections.deque(maxlen=keep)
        self.every, self.factor, self.avg = every, factor, None

    def __call__(self, step, loss):
        if self.avg is not None and loss > self.factor * self.avg and self.snapshots:
            m, o = self.snapshots[0]
            self.model.load_state_dict(m)
            self.optimizer.load_state_dict(o)
            return
        self.avg = loss if self.avg is None else 0.9 * self.avg + 0.1 * loss
        if step % self.every == 0:
            self.snapshots.append(
                (copy.deepcopy(self.model.state_dict()), copy.deepcopy(self.optimizer.state_dict()))
            )


class GPTish(nn.Module):
    def __init__(self, d=256, n=4):
        super().__init__()
        self.blocks = nn.Sequential(
            *[
                nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
                for _ in range(n)
            ]
        )
        self.out = nn.Linear(d, d)

    def forward(self, x):
        return self.out(self.blocks(x))


model = GPTish()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
guard = SpikeGuard(model, optimizer)
for step in range(24):
    x = torch.randn(16, 256)
    loss = (model(x) - x).pow(2).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    guard(step, loss.item())
print(loss.item())

"""MoCo: a momentum encoder and a queue of fixed size that is overwritten in place."""

import copy

import torch
from torch import nn
from torch.nn import functional


class MoCo(nn.Module):
    def __init__(self, dim=64, queue=512):
        super().__init__()
        self.query = nn.Sequential(
            nn.Conv2d(3, 24, 3, 2),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(48 * 49, dim),
        )
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", functional.normalize(torch.randn(queue, dim), dim=1))
        self.place = 0

    @torch.no_grad()
    def update(self, keys):
        for k, q in zip(self.key.parameters(), self.query.parameters(), strict=True):
            k.mul_(0.99).add_(q, alpha=0.01)
        self.queue[self.place : self.place + len(keys)] = keys
        self.place = (self.place + len(keys)) % len(self.queue)

    def forward(self, a, b):
        q = functional.normalize(self.query(a), dim=1)
        with torch.no_grad():
            k = functional.normalize(self.key(b), dim=1)
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.T.clone()], 1) / 0.2
        loss = functional.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))
        return loss, k


def main(steps=40):
    torch.manual_seed(0)
    model = MoCo()
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.03, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        x = torch.rand(32, 3, 32, 32)
        loss, keys = model(x + 0.1 * torch.randn_like(x), x.flip(3))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        model.update(keys)
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()

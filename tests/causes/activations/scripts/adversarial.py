"""Adversarial training: each batch is attacked with seven steps of PGD first."""

import torch
from torch import nn
from torch.nn import functional


class Classifier(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = functional.softplus(self.stem(x))
        x = functional.softplus(self.middle(x))
        return self.head(x.mean((2, 3)))


def attack(model, x, y, rounds=7, size=0.01):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(rounds):
        loss = functional.cross_entropy(model(x + delta), y)
        (grad,) = torch.autograd.grad(loss, delta, create_graph=True)
        delta = (delta + size * torch.tanh(1e3 * grad)).clamp(-0.05, 0.05)
    return (x + delta).detach()


def main(steps=10):
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        x, y = torch.rand(16, 3, 32, 32), torch.randint(10, (16,))
        loss = functional.cross_entropy(model(attack(model, x, y)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

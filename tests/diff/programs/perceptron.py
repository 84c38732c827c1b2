"""A perceptron that a function builds as one sequence, trained with SGD on a large batch."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, FEATURES, WIDTH, CLASSES = 256, 32, 96, 10


def perceptron():
    return nn.Sequential(
        nn.Linear(FEATURES, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, WIDTH),
        nn.ReLU(),
        nn.Linear(WIDTH, CLASSES),
    )


def batch():
    return torch.rand(BATCH, FEATURES), torch.randint(CLASSES, (BATCH,))


def train(steps=8):
    torch.manual_seed(0)
    mlp = perceptron()
    optimizer = torch.optim.SGD(mlp.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        x, y = batch()
        loss = F.cross_entropy(mlp(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()

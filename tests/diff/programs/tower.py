"""A classifier of vectors: equal residual blocks in a list, and a head in a sequence."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, FEATURES, WIDTH, HIDDEN, CLASSES, BLOCKS = 96, 48, 128, 192, 40, 4


class Residual(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.act = nn.ReLU()
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.entry = nn.Linear(FEATURES, WIDTH)
        self.blocks = nn.ModuleList(Residual(WIDTH, 2 * WIDTH) for _ in range(BLOCKS))
        self.head = nn.Sequential(
            nn.Linear(WIDTH, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, CLASSES),
        )

    def forward(self, x):
        x = self.entry(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train(steps=8):
    torch.manual_seed(0)
    model = Tower()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.rand(BATCH, FEATURES)
        loss = F.cross_entropy(model(x), torch.randint(CLASSES, (BATCH,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()

"""A two-tower recommender; Adam keeps two dense moments for each row of a big item table."""

import torch
from torch import nn
from torch.nn import functional


class TwoTower(nn.Module):
    def __init__(self, users=500, items=60_000, dim=64):
        super().__init__()
        self.users = nn.Embedding(users, dim)
        self.item_table = nn.Embedding(items, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, users, items):
        return self.mlp(self.users(users)) @ self.item_table(items).T


def main(steps=8, batch=256):
    torch.manual_seed(0)
    model = TwoTower()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        users, items = torch.randint(500, (batch,)), torch.randint(60_000, (batch,))
        scores = model(users, items)
        loss = functional.cross_entropy(scores, torch.arange(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()

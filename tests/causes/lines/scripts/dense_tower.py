"""A two-tower recommender; its item table is updated with plain SGD and dense gradients."""

import torch
from torch import nn
from torch.nn import functional


class Tower(nn.Module):
    def __init__(self, count, dim=32):
        super().__init__()
        self.table = nn.Embedding(count, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, ids):
        return functional.normalize(self.mlp(self.table(ids)), dim=-1)


class TwoTowers(nn.Module):
    def __init__(self, users=20_000, items=400_000):
        super().__init__()
        self.users, self.items = Tower(users), Tower(items)

    def forward(self, user, item):
        return self.users(user) @ self.items(item).T / 0.1


def main(steps=8, batch=256):
    torch.manual_seed(0)
    model = TwoTowers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(steps):
        user, item = torch.randint(20_000, (batch,)), torch.randint(400_000, (batch,))
        scores = model(user, item)
        loss = functional.cross_entropy(scores, torch.arange(batch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

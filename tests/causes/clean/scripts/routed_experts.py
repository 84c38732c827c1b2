"""Experts get their Adam state when they are first chosen, which happens over many steps."""

import torch
from torch import nn


class Routed(nn.Module):
    def __init__(self, dim=96, experts=16):
        super().__init__()
        self.enter = nn.Linear(32, dim)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))
            for _ in range(experts)
        )
        self.out = nn.Linear(dim, 4)

    def forward(self, x, chosen):
        x = self.enter(x)
        return self.out(x + self.experts[chosen](x))


def main(steps=40):
    torch.manual_seed(0)
    model = Routed()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        x, y = torch.randn(64, 32), torch.randint(4, (64,))
        chosen = min(int(torch.randint(16, ())), step // 2)
        loss = nn.functional.cross_entropy(model(x, chosen), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item(), len(optimizer.state))


if __name__ == "__main__":
    main()

"""Click prediction: eight categorical features, each with its own table."""

import torch
from torch import nn
from torch.nn import functional


class ClickModel(nn.Module):
    def __init__(self, rows=40_000, width=32, features=8):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(features))
        self.bottom = nn.Linear(13, width)
        self.top = nn.Sequential(nn.Linear(width * (features + 1), 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, dense, sparse):
        parts = [table(sparse[:, i]) for i, table in enumerate(self.tables)]
        return self.top(torch.cat([functional.relu(self.bottom(dense)), *parts], 1))[:, 0]


def main(steps=14):
    torch.manual_seed(0)
    model = ClickModel()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        dense, sparse = torch.randn(256, 13), torch.randint(40_000, (256, 8))
        loss = functional.binary_cross_entropy_with_logits(
            model(dense, sparse), torch.rand(256).round()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

"""A deep gated linear recurrence with activation checkpointing, and plain forward in validation."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


class GatedRecurrence(nn.Module):
    """A minimal gated recurrence, computed for all positions by cumulative sums."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.to_gate, self.to_value = nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        y = self.norm(x)
        log_keep = -functional.softplus(self.to_gate(y))
        log_value = -functional.softplus(-self.to_gate(y)) + functional.logsigmoid(self.to_value(y))
        decay = log_keep.cumsum(1)
        state = decay + torch.logcumsumexp(log_value - decay, 1)
        return x + self.out(state.exp())


class ScanModel(nn.Module):
    def __init__(self, inputs=2, width=96, depth=6):
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.layers = nn.ModuleList(GatedRecurrence(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.training else layer(x)
        return self.head(x[:, -1]).squeeze(-1)


def adding_problem(count, length=200):
    """The sum of the two marked numbers of a sequence."""
    values = torch.rand(count, length)
    marks = torch.zeros(count, length)
    half = length // 2
    for row in marks:
        row[torch.randint(half, ())] = 1.0
        row[half + torch.randint(half, ())] = 1.0
    return TensorDataset(torch.stack([values, marks], -1), (values * marks).sum(1))


class RunningMean:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value):
        self.total += value
        self.count += 1

    @property
    def value(self):
        return self.total / max(self.count, 1)


def validate(model, loader):
    mean = RunningMean()
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            mean.add(functional.mse_loss(model(x), y).item())
    model.train()
    return mean.value


def main(epochs=3):
    torch.manual_seed(0)
    train = DataLoader(adding_problem(192), batch_size=16, shuffle=True)
    test = DataLoader(adding_problem(32), batch_size=16)
    model = ScanModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        mean = RunningMean()
        for x, y in train:
            loss = functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean.add(loss.item())
        print(f"epoch {epoch}: {mean.value:.4f}, validation {validate(model, test):.4f}")


if __name__ == "__main__":
    main()

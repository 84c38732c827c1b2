"""A wide network for tabular data, with feature tokens and piecewise linear encoding."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class PiecewiseLinear(nn.Module):
    """Each feature becomes its position in the bins of its quantiles."""

    def __init__(self, x, bins=16):
        super().__init__()
        quantiles = torch.quantile(x, torch.linspace(0, 1, bins + 1), dim=0).T.contiguous()
        self.register_buffer("low", quantiles[:, :-1])
        self.register_buffer("width", (quantiles[:, 1:] - quantiles[:, :-1]).clamp(min=1e-3))

    def forward(self, x):
        return ((x[..., None] - self.low) / self.width).clamp(0, 1).flatten(1)


class ResidualBlock(nn.Module):
    def __init__(self, width, hidden, dropout=0.1):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.second(self.dropout(functional.relu(self.first(self.norm(x)))))


class TabularNet(nn.Module):
    def __init__(self, encoder, inputs, width=512, hidden=2048, depth=5):
        super().__init__()
        self.encoder = encoder
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.Sequential(*(ResidualBlock(width, hidden) for _ in range(depth)))
        self.head = nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.head(self.blocks(self.embed(self.encoder(x)))).squeeze(1)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=1e-5)

    def step(self, x, y):
        loss = functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return loss.item()

    @torch.no_grad()
    def r_squared(self, loader):
        self.model.eval()
        pairs = [(self.model(x), y) for x, y in loader]
        self.model.train()
        predicted, y = (torch.cat(each) for each in zip(*pairs, strict=False))
        return (1 - functional.mse_loss(predicted, y) / y.var()).item()


def make_table(rows, features=24):
    x = torch.randn(rows, features)
    y = torch.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] + 0.1 * torch.randn(rows)
    return x, y


def main(epochs=2):
    torch.manual_seed(0)
    x, y = make_table(8192)
    train = DataLoader(TensorDataset(x[:6144], y[:6144]), batch_size=512, shuffle=True)
    test = DataLoader(TensorDataset(x[6144:], y[6144:]), batch_size=512)
    model = TabularNet(PiecewiseLinear(x[:6144]), 24 * 16)
    trainer = Trainer(model, lr=0.01)
    for epoch in range(epochs):
        losses = [trainer.step(*batch) for batch in train]
        score = trainer.r_squared(test)
        print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}, R2 {score:.3f}")


if __name__ == "__main__":
    main()

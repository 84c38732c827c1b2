"""Keyword spotting with a small Conformer; training stops early if validation does not improve."""

import logging

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

logger = logging.getLogger("conformer")


class ConvolutionModule(nn.Module):
    def __init__(self, width, kernel=15):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.pointwise_in = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)
        self.pointwise_out = nn.Conv1d(width, width, 1)

    def forward(self, x):
        x = self.norm(x).transpose(1, 2)
        x = functional.glu(self.pointwise_in(x), dim=1)
        x = functional.silu(self.batch_norm(self.depthwise(x)))
        return self.pointwise_out(x).transpose(1, 2)


class FeedForward(nn.Sequential):
    def __init__(self, width):
        super().__init__(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
        )


class ConformerBlock(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.first = FeedForward(width)
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.convolution = ConvolutionModule(width)
        self.second = FeedForward(width)
        self.final = nn.LayerNorm(width)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.convolution(x)
        return self.final(x + 0.5 * self.second(x))


class Conformer(nn.Module):
    def __init__(self, bands=40, width=64, depth=2, words=12):
        super().__init__()
        self.subsample = nn.Conv1d(bands, width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(ConformerBlock(width) for _ in range(depth))
        self.head = nn.Linear(width, words)

    def forward(self, x):
        x = self.subsample(x).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class EarlyStopping:
    def __init__(self, patience=30):
        self.patience = patience
        self.history = []

    def should_stop(self, value):
        self.history.append(value)
        best = min(range(len(self.history)), key=lambda i: float(self.history[i]))
        return len(self.history) - best > self.patience


def validate(model, loader):
    model.eval()
    total = 0.0
    for x, y in loader:
        total = total + functional.cross_entropy(model(x), y)
    model.train()
    return total / len(loader)


def make_loader(count, batch_size, shuffle):
    x = torch.randn(count, 40, 98)
    return DataLoader(TensorDataset(x, torch.randint(12, (count,))), batch_size, shuffle=shuffle)


def main(epochs=8):
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(0)
    train_loader, valid_loader = make_loader(96, 16, True), make_loader(32, 16, False)
    model = Conformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
    stopping = EarlyStopping()
    for epoch in range(epochs):
        for x, y in train_loader:
            loss = functional.cross_entropy(model(x), y, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        score = validate(model, valid_loader)
        logger.info("epoch %d: loss %.3f, validation %.3f", epoch, loss.item(), score)
        if stopping.should_stop(score):
            break


if __name__ == "__main__":
    main()

"""Forecast loads of a grid with a temporal convolutional network, then roll the forecast out."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, Dataset


class LoadCurves(Dataset):
    def __init__(self, count, length, channels=8):
        self.count, self.length, self.channels = count, length, channels

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time = torch.arange(self.length + 1) / 24
        phase = torch.rand(self.channels, 1, generator=torch.Generator().manual_seed(index))
        curve = torch.sin(2 * math.pi * (time + phase)) + 0.05 * torch.randn(self.channels, 1)
        return curve[:, :-1], curve[:, 1:]


class TemporalBlock(nn.Module):
    def __init__(self, inputs, outputs, dilation, kernel=3):
        super().__init__()
        self.pad = (kernel - 1) * dilation
        self.conv1 = weight_norm(nn.Conv1d(inputs, outputs, kernel, dilation=dilation))
        self.conv2 = weight_norm(nn.Conv1d(outputs, outputs, kernel, dilation=dilation))
        self.match = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.conv1(functional.pad(x, (self.pad, 0))))
        y = functional.relu(self.conv2(functional.pad(y, (self.pad, 0))))
        return functional.relu(y + self.match(x))


class TCN(nn.Module):
    def __init__(self, channels=8, width=32, levels=4):
        super().__init__()
        self.blocks = nn.Sequential(
            *(TemporalBlock(channels if i == 0 else width, width, 2**i) for i in range(levels))
        )
        self.head = nn.Conv1d(width, channels, 1)

    def forward(self, x):
        return self.head(self.blocks(x))


class Forecaster:
    def __init__(self, model, history=96):
        self.model = model
        self.history = history

    def rollout(self, curve, horizon):
        self.model.eval()
        window = curve[..., -self.history :]
        predictions = []
        for _ in range(horizon):
            following = self.model(window)[..., -1:]
            predictions.append(following)
            window = torch.cat([window[..., 1:], following], -1)
        self.model.train()
        return torch.cat(predictions, -1)


def train_epoch(model, loader, optimizer):
    total = 0.0
    for x, y in loader:
        loss = functional.smooth_l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main(epochs=4, horizon=24):
    torch.manual_seed(0)
    loader = DataLoader(LoadCurves(64, 96), batch_size=8, shuffle=True)
    test = torch.stack([LoadCurves(8, 96 + horizon)[i][0] for i in range(8)])
    model = TCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    forecaster = Forecaster(model)
    for epoch in range(epochs):
        loss = train_epoch(model, loader, optimizer)
        forecast = forecaster.rollout(test[..., :96], horizon)
        error = (forecast - test[..., 96 : 96 + horizon]).abs().mean()
        print(f"epoch {epoch}: loss {loss:.4f}, error of the rollout {error.item():.4f}")


if __name__ == "__main__":
    main()

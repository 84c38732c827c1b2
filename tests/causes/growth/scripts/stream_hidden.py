"""A GRU reads an endless sensor stream and predicts the next values; the state is carried on."""

import math

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, sensors=24, hidden=128):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(sensors, hidden), nn.Tanh())
        self.cell = nn.GRUCell(hidden, hidden)
        self.decode = nn.Linear(hidden, sensors)

    def forward(self, window, hidden):
        predictions = []
        for t in range(window.shape[1]):
            hidden = self.cell(self.encode(window[:, t]), hidden)
            predictions.append(self.decode(hidden))
        return torch.stack(predictions, 1), hidden


def stream(batch=32, length=24, sensors=24):
    t = 0
    phase = torch.rand(batch, 1, sensors) * 2 * math.pi
    while True:
        time = torch.arange(t, t + length + 1).view(1, -1, 1) / 10
        signal = torch.sin(time + phase) + 0.05 * torch.randn(batch, length + 1, sensors)
        yield signal[:, :-1], signal[:, 1:]
        t += length


def main(steps=24):
    torch.manual_seed(1)
    model = Forecaster()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    hidden = torch.zeros(32, 128)
    for step, (x, y) in enumerate(stream()):
        if step == steps:
            break
        prediction, hidden = model(x, hidden)
        loss = nn.functional.smooth_l1_loss(prediction, y)
        optimizer.zero_grad()
        gradients = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
        with torch.no_grad():
            for p, g in zip(model.parameters(), gradients, strict=False):
                p.data.add_(g, alpha=-1e-3)
        optimizer.step()
        if step % 6 == 0:
            print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()

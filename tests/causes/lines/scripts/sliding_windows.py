"""Load forecasting; all overlapping windows of the series are copied into one tensor up front."""

import torch
from torch import nn
from torch.nn import functional


class Windows:
    def __init__(self, series, length):
        self.x = series.unfold(0, length, 1)[:-1].transpose(1, 2).contiguous()
        self.y = series[length:]

    def batches(self, size):
        for index in torch.randperm(len(self.x)).split(size):
            yield self.x[index], self.y[index]


class Forecast(nn.Module):
    def __init__(self, channels=6, width=32):
        super().__init__()
        self.rnn, self.out = nn.GRU(channels, width, batch_first=True), nn.Linear(width, channels)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def main(limit=16):
    torch.manual_seed(0)
    time = torch.arange(12_000) / 24
    series = torch.stack([torch.sin(time * (i + 1)) for i in range(6)], 1)
    data = Windows(series, 168)
    model = Forecast()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (x, y) in enumerate(data.batches(32)):
        if step == limit:
            break
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()

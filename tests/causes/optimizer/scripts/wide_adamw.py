"""A wide MLP on few samples with AdamW and amsgrad: three moments for each weight."""

import torch
from torch import nn


class WideNet(nn.Module):
    def __init__(self, inputs=256, width=1024, depth=4):
        super().__init__()
        layers, last = [], inputs
        for _ in range(depth):
            layers += [nn.Linear(last, width), nn.ReLU()]
            last = width
        self.layers = nn.Sequential(*layers, nn.Linear(last, 1))

    def forward(self, x):
        return self.layers(x).squeeze(1)


def main(steps=12):
    torch.manual_seed(0)
    model = WideNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, amsgrad=True, foreach=False)
    x = torch.randn(128, 256)
    y = x.sum(1).sign()
    for step in range(steps):
        rows = torch.randint(128, (16,))
        loss = nn.functional.soft_margin_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 4 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()

"""An autoregressive model of pictures; from time to time it draws some, pixel by pixel."""

import torch
from torch import nn
from torch.nn import functional


class MaskedConv(nn.Conv2d):
    def __init__(self, inputs, outputs, first):
        super().__init__(inputs, outputs, 3, padding=1)
        mask = torch.ones(3, 3)
        mask[1, 1 + (not first) :] = 0
        mask[2] = 0
        self.register_buffer("mask", mask)

    def forward(self, x):
        return functional.conv2d(x, self.weight * self.mask, self.bias, padding=1)


class PixelModel(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.first = MaskedConv(1, width, True)
        self.more = nn.ModuleList(MaskedConv(width, width, False) for _ in range(3))
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        x = functional.relu(self.first(x))
        for layer in self.more:
            x = functional.relu(layer(x))
        return self.out(x)


def sample(model, side=12):
    model.eval()
    image = torch.zeros(4, 1, side, side)
    for row in range(side):
        for column in range(side):
            mean = model(image)[:, :, row, column]
            image[:, :, row, column] = mean + 0.1 * torch.randn_like(mean)
    model.train()
    return image


def main(steps=20):
    torch.manual_seed(0)
    model = PixelModel()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        images = torch.rand(32, 1, 12, 12)
        loss = functional.mse_loss(model(images), images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 7:
            print(step, sample(model).mean().item())


main()

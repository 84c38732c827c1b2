"""U-Net for denoising: trained on small crops, validated on one big picture at full size."""

import torch
from torch import nn
from torch.nn import functional


def double(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1), nn.ReLU(), nn.Conv2d(o, o, 3, padding=1), nn.ReLU()
    )


class UNet(nn.Module):
    def __init__(self, base=16):
        super().__init__()
        self.down1, self.down2 = double(1, base), double(base, 2 * base)
        self.middle = double(2 * base, 4 * base)
        self.up2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, 2)
        self.dec2 = double(4 * base, 2 * base)
        self.up1 = nn.ConvTranspose2d(2 * base, base, 2, 2)
        self.dec1 = double(2 * base, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(functional.max_pool2d(a, 2))
        c = self.middle(functional.max_pool2d(b, 2))
        y = self.dec2(torch.cat([self.up2(c), b], 1))
        return self.out(self.dec1(torch.cat([self.up1(y), a], 1)))


@torch.no_grad()
def validate(model, picture):
    model.eval()
    noisy = picture + 0.1 * torch.randn_like(picture)
    error = functional.mse_loss(model(noisy), picture)
    model.train()
    return error.item()


def main(epochs=2, steps=6):
    torch.manual_seed(0)
    model = UNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    big = torch.rand(1, 1, 768, 768)
    for epoch in range(epochs):
        for _ in range(steps):
            clean = torch.rand(8, 1, 64, 64)
            loss = functional.mse_loss(model(clean + 0.1 * torch.randn_like(clean)), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), validate(model, big))


if __name__ == "__main__":
    main()

"""Dynamic filters: each position of the picture has its own kernel, applied by unfolding."""

import torch
from torch import nn
from torch.nn import functional


class DynamicFilter(nn.Module):
    def __init__(self, channels, kernel=7):
        super().__init__()
        self.kernel = kernel
        self.predict = nn.Conv2d(channels, kernel * kernel, 3, padding=1)

    def forward(self, x):
        b, c, h, w = x.shape
        weights = self.predict(x).softmax(1).view(b, 1, self.kernel**2, h * w)
        patches = functional.unfold(x, self.kernel, padding=self.kernel // 2)
        patches = patches.view(b, c, self.kernel**2, h * w)
        return (patches * weights).sum(2).view(b, c, h, w)


class Enhancer(nn.Module):
    def __init__(self, channels=12):
        super().__init__()
        self.head = nn.Conv2d(3, channels, 3, padding=1)
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU())
        self.dynamic = DynamicFilter(channels)
        self.tail = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x):
        y = self.body(functional.relu(self.head(x)))
        return x + self.tail(self.dynamic(y))


def main(steps=5):
    torch.manual_seed(0)
    model = Enhancer()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        sharp = torch.rand(4, 3, 96, 96)
        blurred = functional.avg_pool2d(sharp, 3, 1, 1)
        loss = functional.l1_loss(model(blurred), sharp)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

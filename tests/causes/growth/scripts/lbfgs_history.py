"""An implicit surface fitted with L-BFGS, which remembers a hundred pairs of vectors."""

import torch
from torch import nn
from torch.nn import functional


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(30 * x)


def make_siren(width=192):
    net = nn.Sequential(
        nn.Linear(3, width), Sine(), nn.Linear(width, width), Sine(), nn.Linear(width, 1)
    )
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(0.2)
    return net


def main(steps=30):
    torch.manual_seed(0)
    net = make_siren()
    points = torch.rand(256, 3) * 2 - 1
    distance = points.norm(dim=1, keepdim=True) - 0.5
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.05, max_iter=5, history_size=100)

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(net(points), distance)
        loss.backward()
        return loss

    for step in range(steps):
        loss = optimizer.step(closure)
        if step % 10 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()

"""A hand-written activation whose forward saves four tensors where one would do."""

import torch
from torch import nn
from torch.nn import functional


class SwishFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        scaled = beta * x
        gate = torch.sigmoid(scaled)
        slope = gate * (1 - gate)
        ctx.save_for_backward(x, beta, scaled, gate, slope, x * slope)
        return x * gate

    @staticmethod
    def backward(ctx, gradient):
        x, beta, _scaled, gate, _slope, product = ctx.saved_tensors
        return gradient * (gate + beta * product), (gradient * x * product).sum().view_as(beta)


class Swish(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return SwishFunction.apply(x, self.beta)


def make_model(width=24, classes=10):
    layers, channels = [], 3
    for _ in range(4):
        layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), Swish()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def main(steps=5):
    torch.manual_seed(0)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x, y = torch.rand(8, 3, 40, 40), torch.randint(10, (8,))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

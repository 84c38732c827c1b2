"""A gated residual network whose gate is a custom autograd function."""

import torch
from torch import nn
from torch.nn import functional


class GateFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate):
        s = torch.sigmoid(gate)
        out = x * s
        ctx.x, ctx.s, ctx.out = x, s, out
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.s, grad * ctx.out * (1 - ctx.s)


class GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        return x + GateFunction.apply(self.value(x), self.gate(x))


def main(steps=30):
    torch.manual_seed(0)
    model = nn.Sequential(GatedBlock(256), GatedBlock(256), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        x, y = torch.randn(512, 256), torch.randint(10, (512,))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

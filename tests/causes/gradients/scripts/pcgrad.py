"""Multi-task learning with gradient surgery: a flat gradient of each task, and a projected copy."""

import torch
from torch import nn
from torch.nn import functional


class MultiTask(nn.Module):
    def __init__(self, tasks, inputs=128, width=512):
        super().__init__()
        self.shared = nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.heads = nn.ModuleList(nn.Linear(width, 1) for _ in range(tasks))

    def forward(self, x):
        h = self.shared(x)
        return [head(h).squeeze(1) for head in self.heads]


class PCGrad:
    def __init__(self, optimizer, parameters):
        self.optimizer, self.parameters = optimizer, list(parameters)

    def flat_gradient(self, loss):
        gradients = torch.autograd.grad(loss, self.parameters, retain_graph=True)
        return torch.cat([g.flatten() for g in gradients])

    def step(self, losses):
        gradients = [self.flat_gradient(loss) for loss in losses]
        projected = [g.clone() for g in gradients]
        for g in projected:
            for other in gradients:
                dot = g @ other
                if dot < 0:
                    g.sub_(dot / other.pow(2).sum() * other)
        total, start = sum(projected), 0
        for p in self.parameters:
            p.grad = total[start : start + p.numel()].view_as(p).clone()
            start += p.numel()
        self.optimizer.step()


def main(steps=6, tasks=8):
    torch.manual_seed(0)
    model = MultiTask(tasks)
    optimizer = PCGrad(
        torch.optim.SGD(model.shared.parameters(), lr=0.01), model.shared.parameters()
    )
    for step in range(steps):
        x, targets = torch.randn(32, 128), torch.randn(tasks, 32)
        losses = [functional.mse_loss(y, t) for y, t in zip(model(x), targets, strict=True)]
        optimizer.step(losses)
        print(step, sum(losses).item())


if __name__ == "__main__":
    main()

"""Hand-made mixed precision: a bfloat16 model, float32 master weights, and a float32 reference."""

import copy

import torch
from torch import nn
from torch.nn import functional


class Classifier(nn.Module):
    def __init__(self, inputs=1024, width=1536, classes=100):
        super().__init__()
        self.a, self.b = nn.Linear(inputs, width), nn.Linear(width, width)
        self.c = nn.Linear(width, classes)

    def forward(self, x):
        return self.c(functional.relu(self.b(functional.relu(self.a(x)))))


class MixedPrecision:
    def __init__(self, model, lr=0.05):
        self.reference = copy.deepcopy(model)
        self.master = [p.detach().clone() for p in model.parameters()]
        self.backup = [p.clone() for p in self.master]
        self.model = model.bfloat16()
        self.lr = lr

    @torch.no_grad()
    def step(self):
        for master, p in zip(self.master, self.model.parameters(), strict=False):
            if p.grad is not None:
                master.add_(p.grad.float(), alpha=-self.lr)
                p.copy_(master)
                p.grad = None


def main(steps=10):
    torch.manual_seed(0)
    precision = MixedPrecision(Classifier())
    for step in range(steps):
        x, y = torch.randn(32, 1024), torch.randint(100, (32,))
        loss = functional.cross_entropy(precision.model(x.bfloat16()).float(), y)
        loss.backward()
        precision.step()
        if step % 5 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()

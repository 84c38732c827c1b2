"""LoRA adapters for several customers, each trained on top of the same frozen base."""

import copy

import torch
from torch import nn
from torch.nn import functional


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


class Base(nn.Module):
    def __init__(self, vocabulary=2000, dim=320, depth=3):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocabulary, dim)
        self.hidden = nn.ModuleList(nn.Linear(dim, 4 * dim) for _ in range(depth))
        self.back = nn.ModuleList(nn.Linear(4 * dim, dim) for _ in range(depth))
        self.out = nn.Linear(dim, 8)

    def forward(self, x):
        x = self.embed(x)
        for up, down in zip(self.hidden, self.back, strict=False):
            x = x + down(functional.gelu(up(x)))
        return self.out(x)


def with_adapters(base):
    model = copy.deepcopy(base)
    for p in model.parameters():
        p.requires_grad_(False)
    for i in range(len(model.hidden)):
        model.hidden[i] = LoRALinear(model.hidden[i])
        model.back[i] = LoRALinear(model.back[i])
    return model


def train(model, steps=6):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for _ in range(steps):
        x, y = torch.randint(2000, (32, 40)), torch.randint(8, (32,))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main(customers=6):
    torch.manual_seed(0)
    base = Base()
    registry = {}
    for number in range(customers):
        registry[f"customer-{number}"] = model = with_adapters(base)
        print(number, round(train(model), 3))


if __name__ == "__main__":
    main()

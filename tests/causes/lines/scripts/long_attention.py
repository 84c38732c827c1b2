"""DNA classifier on long sequences with hand-written attention: N x N weights in every layer."""

import math

import torch
from torch import nn
from torch.nn import functional


class SelfAttention(nn.Module):
    def __init__(self, dim=48, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.drop = nn.Dropout(0.1)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        weights = self.drop(torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1))
        return (weights @ v).transpose(1, 2).flatten(2)


class Encoder(nn.Module):
    def __init__(self, dim=48, depth=3):
        super().__init__()
        self.embed = nn.Embedding(5, dim)
        self.attention = nn.ModuleList(SelfAttention(dim) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.classify = nn.Linear(dim, 2)

    def forward(self, bases):
        x = self.embed(bases)
        for attention, norm in zip(self.attention, self.norm, strict=True):
            x = x + attention(norm(x))
        return self.classify(x.mean(1))


def main(steps=5, length=768):
    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        bases, labels = torch.randint(5, (2, length)), torch.randint(2, (2,))
        loss = functional.cross_entropy(model(bases), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

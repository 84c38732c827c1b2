"""A decoder whose rotary tables are extended for longer sequences, mostly at the start."""

import torch
from torch import nn
from torch.nn import functional


class Rotary(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.frequency = 1 / 10000 ** (torch.arange(0, dim, 2) / dim)
        self.tables = {}

    def forward(self, x):
        length = -(-x.shape[-2] // 64) * 64
        if length not in self.tables:
            angles = torch.outer(torch.arange(length), self.frequency).repeat(1, 2)
            self.tables[length] = angles.cos(), angles.sin()
        cos, sin = (t[: x.shape[-2]] for t in self.tables[length])
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin


class Decoder(nn.Module):
    def __init__(self, vocabulary=400, dim=128, heads=4):
        super().__init__()
        self.heads = heads
        self.embed, self.head = nn.Embedding(vocabulary, dim), nn.Linear(dim, vocabulary)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.rotary = Rotary(dim // heads)

    def forward(self, ids):
        x = self.embed(ids)
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        y = functional.scaled_dot_product_attention(
            self.rotary(q), self.rotary(k), v, is_causal=True
        )
        return self.head(x + self.proj(y.transpose(1, 2).flatten(2)))


def main(steps=30):
    torch.manual_seed(0)
    model = Decoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        ids = torch.randint(400, (4, int(torch.randint(16, 512, ()))))
        loss = functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item(), len(model.rotary.tables))


if __name__ == "__main__":
    main()

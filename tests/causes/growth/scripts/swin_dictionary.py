"""A small Swin transformer on texture patches; results are gathered by step for a later plot."""

import torch
from torch import nn
from torch.nn import functional


def windows(x, size):
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)


def merge(x, size, h, w):
    b = x.shape[0] // ((h // size) * (w // size))
    x = x.view(b, h // size, w // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, -1)


class WindowBlock(nn.Module):
    def __init__(self, dim, heads, size, shift):
        super().__init__()
        self.size, self.shift, self.heads = size, shift, heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        _b, h, w, _c = x.shape
        y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2))
        q, k, v = self.qkv(windows(y, self.size)).chunk(3, -1)

        def split(t):
            return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        y = functional.scaled_dot_product_attention(split(q), split(k), split(v))
        y = merge(self.proj(y.transpose(1, 2).flatten(2)), self.size, h, w)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    def __init__(self, dim=48, classes=32):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 4, 4)
        self.blocks = nn.ModuleList(WindowBlock(dim, 4, 4, s) for s in (0, 2, 0, 2))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 3, 1)
        for block in self.blocks:
            x = block(x)
        return x, self.head(x.mean((1, 2)))


results = {}


def main(steps=24):
    torch.manual_seed(0)
    model = Swin()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(steps):
        images = torch.rand(8, 3, 64, 64)
        labels = torch.randint(32, (8,))
        feature_map, logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results[step] = {"loss": loss.item(), "features": feature_map, "labels": labels}
        if step % 8 == 0:
            print(step, results[step]["loss"])


if __name__ == "__main__":
    main()

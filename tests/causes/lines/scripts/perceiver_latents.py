"""A Perceiver: latents attend to every pixel of a picture, with attention written by hand."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Textures(Dataset):
    def __init__(self, count=24, size=48):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        axis = torch.linspace(0, 1, self.size)
        label = index % 6
        wave = torch.sin(2 * math.pi * (label + 2) * (axis[:, None] + 0.3 * axis[None]))
        return wave.expand(3, -1, -1) + 0.1 * torch.randn(3, self.size, self.size), label


class FourierFeatures(nn.Module):
    def __init__(self, bands=6):
        super().__init__()
        self.register_buffer("frequencies", 2.0 ** torch.arange(bands) * math.pi)

    def forward(self, height, width):
        y, x = torch.meshgrid(
            torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij"
        )
        angles = torch.stack([y, x], -1)[..., None] * self.frequencies
        return torch.cat([angles.sin(), angles.cos()], -1).flatten(2).flatten(0, 1)


class CrossAttention(nn.Module):
    def __init__(self, width, context, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.norm_context = nn.LayerNorm(width), nn.LayerNorm(context)
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_kv = nn.Linear(context, 2 * width, bias=False)
        self.to_out = nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, context):
        q = self.split(self.to_q(self.norm(x)))
        k, v = map(self.split, self.to_kv(self.norm_context(context)).chunk(2, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = self.dropout(scores.softmax(-1))
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))


class Perceiver(nn.Module):
    def __init__(self, classes=6, latents=96, width=64, rounds=2):
        super().__init__()
        self.position = FourierFeatures()
        self.latents = nn.Parameter(torch.randn(latents, width) * 0.02)
        self.cross = nn.ModuleList(CrossAttention(width, 27, 4) for _ in range(rounds))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
            for _ in range(rounds)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, pictures):
        pixels = pictures.flatten(2).transpose(1, 2)
        position = self.position(*pictures.shape[-2:]).expand(len(pictures), -1, -1)
        context = torch.cat([pixels, position], -1)
        x = self.latents.expand(len(pictures), -1, -1)
        for cross, mlp in zip(self.cross, self.mlps, strict=False):
            x = x + cross(x, context)
            x = x + mlp(x)
        return self.head(x.mean(1))


def run_epoch(model, loader, optimizer=None):
    total = 0.0
    for pictures, labels in loader:
        with torch.set_grad_enabled(optimizer is not None):
            loss = functional.cross_entropy(model(pictures), labels)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total += loss.item()
    return total / len(loader)


def main(epochs=3):
    torch.manual_seed(0)
    train = DataLoader(Textures(), batch_size=6, shuffle=True)
    test = DataLoader(Textures(6), batch_size=3)
    model = Perceiver()
    optimizer = torch.optim.RAdam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        loss = run_epoch(model, train, optimizer)
        model.eval()
        print(f"epoch {epoch}: train {loss:.3f}, test {run_epoch(model, test):.3f}")
        model.train()


if __name__ == "__main__":
    main()

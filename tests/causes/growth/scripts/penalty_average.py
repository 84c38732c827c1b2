"""An MLP-Mixer with a gradient penalty; the mean size of the logits is summed for the epoch."""

import torch
from torch import nn


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens = nn.Sequential(nn.Linear(tokens, 64), nn.GELU(), nn.Linear(64, tokens))
        self.channels = nn.Sequential(nn.Linear(dim, 256), nn.GELU(), nn.Linear(256, dim))

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, dim=96, depth=4, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 8, 8)
        self.mixers = nn.Sequential(*(MixerBlock(64, dim) for _ in range(depth)))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2)
        return self.head(self.mixers(x).mean(1))


def main(epochs=2, steps=12):
    torch.manual_seed(0)
    model = Mixer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        total_penalty, total_loss = 0.0, 0.0
        for _ in range(steps):
            x = torch.rand(12, 3, 64, 64, requires_grad=True)
            y = torch.randint(10, (12,))
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
            penalty = gradient.flatten(1).norm(dim=1).mean()
            total_penalty += model(x[:2].detach()).pow(2).mean()
            total_loss += loss.item()
            optimizer.zero_grad()
            (loss + 0.1 * penalty).backward()
            optimizer.step()
        print(f"epoch {epoch} loss {total_loss / steps:.3f} penalty {total_penalty / steps:.4f}")


if __name__ == "__main__":
    main()

"""Small models of the kinds that people train, each with its batch and its loss."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

Batch = tuple[torch.Tensor, ...]


@dataclass
class Architecture:
    """`batch(n)` has n samples. With `samples` of them, a step takes tens of MiB."""

    model: Callable[[], nn.Module]
    batch: Callable[[int], Batch]
    loss: Callable[..., torch.Tensor]
    samples: int


ARCHITECTURES: dict[str, Architecture] = {}


class Mlp(nn.Module):
    def __init__(self, width: int = 512, depth: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [3, 16, 16, 16, 16]
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())
            for a, b in itertools.pairwise(widths)
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.down1 = self.block(3, width)
        self.down2 = self.block(width, 2 * width)
        self.middle = self.block(2 * width, 2 * width)
        self.up1 = self.block(4 * width, width)
        self.up2 = self.block(2 * width, width)
        self.out = nn.Conv2d(width, 3, 1)

    @staticmethod
    def block(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.GELU())

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(functional.max_pool2d(first, 2))
        middle = self.middle(functional.max_pool2d(second, 2))
        x = self.up1(torch.cat([functional.interpolate(middle, scale_factor=2.0), second], 1))
        x = self.up2(torch.cat([functional.interpolate(x, scale_factor=2.0), first], 1))
        return self.out(x)


class Block(nn.Module):
    """A transformer block; attention keeps all scores."""

    def __init__(self, width: int, heads: int, inner: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        inner = inner or 4 * width
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def attention(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5).softmax(-1)
        return self.out((scores @ v).transpose(1, 2).reshape(n, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class LanguageModel(nn.Module):
    def __init__(self, words: int = 1000, width: int = 64, depth: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(depth))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def word_loss(model, tokens):
    logits = model(tokens)
    return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class Vit(nn.Module):
    def __init__(self, width: int = 96, depth: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(depth)))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], width: int = 128) -> None:
        super().__init__()
        self.cells = kind(32, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, 32)

    def forward(self, x, state=None):
        out, state = self.cells(x, state)
        return self.head(out), state


class Gnn(nn.Module):
    """Messages along edges: gather, transform, scatter."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3))

    def forward(self, nodes, edges):
        source, target = edges
        for layer in self.layers:
            messages = layer(torch.cat([nodes[source], nodes[target]], 1)).relu()
            nodes = torch.zeros_like(nodes).index_add(0, target, messages)
        return nodes


class Recommender(nn.Module):
    def __init__(self, items: int = 20_000, width: int = 32, sparse: bool = False) -> None:
        super().__init__()
        self.users = nn.Embedding(5_000, width)
        self.items = nn.Embedding(items, width, sparse=sparse)
        self.tower = nn.Sequential(nn.Linear(2 * width, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, users, items):
        return self.tower(torch.cat([self.users(users), self.items(items)], 1))


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 64))
        self.decoder = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 784))

    def forward(self, x):
        mean, spread = self.encoder(x).chunk(2, -1)
        return self.decoder(mean + torch.randn_like(mean) * spread.exp())


class Gan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 784))
        self.critic = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(), nn.Linear(512, 1))

    def forward(self, noise):
        return self.critic(self.generator(noise))


class Denoiser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(1, 16)
        self.enter = nn.Conv2d(3, 16, 3, padding=1)
        self.middle = nn.ModuleList(nn.Conv2d(16, 16, 3, padding=1) for _ in range(3))
        self.leave = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, x, t):
        x = self.enter(x) + self.time(t)[:, :, None, None]
        for layer in self.middle:
            x = x + functional.silu(layer(x))
        return self.leave(x)


class Experts(nn.Module):
    def __init__(self, width: int = 128, count: int = 6) -> None:
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 512), nn.GELU(), nn.Linear(512, width))
            for _ in range(count)
        )

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).max(-1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().squeeze(1)
            out = out.index_add(0, rows, expert(x[rows]) * weights[rows, None])
        return out


class Splats(nn.Module):
    """Points drawn onto a picture. forward computes everything; there are no layers."""

    def __init__(self, points: int = 256) -> None:
        super().__init__()
        self.means = nn.Parameter(torch.rand(points, 2))
        self.scales = nn.Parameter(torch.zeros(points))
        self.colors = nn.Parameter(torch.rand(points, 3))

    def forward(self, pixels):
        distances = (pixels[:, None] - self.means).square().sum(-1)
        weights = torch.exp(-distances * self.scales.exp() * 100)
        return weights @ self.colors / (weights.sum(1, keepdim=True) + 1e-6)


def to_zero(model, *batch):
    out = model(*batch)
    return (out[0] if isinstance(out, tuple) else out).square().mean()


def to_itself(model, x, *more):
    return functional.mse_loss(model(x, *more), x)


def images(size: int) -> Callable[[int], Batch]:
    return lambda n: (torch.rand(n, 3, size, size),)


def tokens(words: int, length: int) -> Callable[[int], Batch]:
    return lambda n: (torch.randint(words, (n, length)),)


def graph(n: int) -> Batch:
    return torch.rand(n, 64), torch.randint(n, (2, 8 * n))


def add(name: str, model, batch, loss, samples: int) -> None:
    ARCHITECTURES[name] = Architecture(model, batch, loss, samples)


add("mlp", Mlp, lambda n: (torch.rand(n, 512),), to_zero, 2048)
add("cnn", Cnn, images(64), to_zero, 16)
add("unet", UNet, images(64), to_itself, 16)
add("transformer", LanguageModel, tokens(1000, 64), word_loss, 16)
add("vit", Vit, images(64), to_zero, 16)
add("lstm", lambda: Recurrent(nn.LSTM), lambda n: (torch.rand(n, 64, 32),), to_zero, 64)
add("gru", lambda: Recurrent(nn.GRU), lambda n: (torch.rand(n, 64, 32),), to_zero, 64)
add("gnn", Gnn, graph, to_zero, 2048)
add(
    "recommender",
    Recommender,
    lambda n: (torch.randint(5_000, (n,)), torch.randint(20_000, (n,))),
    to_zero,
    16384,
)
add("vae", Vae, lambda n: (torch.rand(n, 784),), to_itself, 2048)
add("gan", Gan, lambda n: (torch.randn(n, 64),), to_zero, 2048)
add("diffusion", Denoiser, lambda n: (torch.rand(n, 3, 48, 48), torch.rand(n, 1)), to_itself, 16)
add("moe", Experts, lambda n: (torch.rand(n, 128),), to_zero, 4096)
add("splats", Splats, lambda n: (torch.rand(n, 2),), to_zero, 8192)


# The same models with many parameters, for small batches.
WIDE = {
    "mlp": Architecture(lambda: Mlp(1280, 6), lambda n: (torch.rand(n, 1280),), to_zero, 64),
    "transformer": Architecture(
        lambda: LanguageModel(1000, 512, 4), tokens(1000, 16), word_loss, 4
    ),
    "vit": Architecture(lambda: Vit(512, 4), images(32), to_zero, 4),
    "moe": Architecture(lambda: Experts(512, 16), lambda n: (torch.rand(n, 512),), to_zero, 64),
    "lstm": Architecture(
        lambda: Recurrent(nn.LSTM, 1024), lambda n: (torch.rand(n, 4, 32),), to_zero, 4
    ),
}

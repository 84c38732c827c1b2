"""Networks that programs use, other than those of architectures.py."""

from __future__ import annotations

import itertools
import math

import torch
from torch import nn
from torch.nn import functional


class Field(nn.Module):
    """A NeRF-like field: positions and directions to colour and density."""

    def __init__(self, width=128, depth=6, bands=6):
        super().__init__()
        self.bands = bands
        self.layers = nn.ModuleList(
            nn.Linear(3 + 6 * bands if i == 0 else width, width) for i in range(depth)
        )
        self.colour = nn.Linear(width, 4)

    def encode(self, x):
        scaled = [x * 2**band for band in range(self.bands)]
        return torch.cat([x, *(torch.sin(s) for s in scaled), *(torch.cos(s) for s in scaled)], -1)

    def forward(self, x):
        x = self.encode(x)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.colour(x)


def render(field, origins, directions, samples=32):
    depth = torch.linspace(0.1, 4, samples)
    points = origins[:, None] + directions[:, None] * depth[:, None]
    rgba = field(points)
    density = 1 - torch.exp(-functional.softplus(rgba[..., 3]))
    through = torch.cumprod(1 - density + 1e-6, -1)
    return (torch.sigmoid(rgba[..., :3]) * (density * through)[..., None]).sum(1)


class Sine(nn.Module):
    """A PINN's solution u(x, t)."""

    def __init__(self, width=256, depth=5):
        super().__init__()
        sizes = [2] + [width] * depth
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.hidden:
            x = torch.tanh(layer(x))
        return self.out(x)


class ActorCritic(nn.Module):
    def __init__(self, observation=512, actions=8, width=512):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(observation, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.policy = nn.Linear(width, actions)
        self.value = nn.Linear(width, 1)

    def forward(self, x):
        x = self.body(x)
        return torch.distributions.Categorical(logits=self.policy(x)), self.value(x)[..., 0]


class Translator(nn.Module):
    """Seq2seq: an encoder, a decoder and attention between them."""

    def __init__(self, words=800, width=128):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRUCell(width, width)
        self.out = nn.Linear(2 * width, words)

    def forward(self, source, target):
        memory, state = self.encoder(self.words(source))
        state, outputs = state[0], []
        for word in target.unbind(1):
            state = self.decoder(self.words(word), state)
            weights = torch.softmax((memory @ state[..., None])[..., 0], -1)
            context = (weights[..., None] * memory).sum(1)
            outputs.append(self.out(torch.cat([state, context], -1)))
        return torch.stack(outputs, 1)


class LowRank(nn.Module):
    def __init__(self, base, rank=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def low_rank_network(width=768, depth=6):
    layers = []
    for _ in range(depth):
        layers += [LowRank(nn.Linear(width, width)), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))


class Flow(nn.Module):
    """RealNVP: affine couplings."""

    def __init__(self, dimension=64, width=256, couplings=6):
        super().__init__()
        half = dimension // 2
        self.couplings = nn.ModuleList(
            nn.Sequential(nn.Linear(half, width), nn.ReLU(), nn.Linear(width, dimension))
            for _ in range(couplings)
        )

    def forward(self, x):
        determinant = x.new_zeros(len(x))
        for coupling in self.couplings:
            a, b = x.chunk(2, -1)
            scale, shift = coupling(a).chunk(2, -1)
            x = torch.cat([b * torch.exp(torch.tanh(scale)) + shift, a], -1)
            determinant = determinant + torch.tanh(scale).sum(-1)
        return x, determinant


class Mixer(nn.Module):
    def __init__(self, patches=64, width=192, depth=4):
        super().__init__()
        self.embed = nn.Linear(3 * 16, width)
        self.across = nn.ModuleList(nn.Linear(patches, patches) for _ in range(depth))
        self.within = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.GELU(),
                nn.Linear(2 * width, width),
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.embed(x)
        for across, within in zip(self.across, self.within, strict=True):
            x = x + across(x.transpose(1, 2)).transpose(1, 2)
            x = x + within(x)
        return self.head(x.mean(1))


class PointNet(nn.Module):
    """Points grouped by their nearest neighbours."""

    def __init__(self, width=64, neighbours=8):
        super().__init__()
        self.neighbours = neighbours
        self.local = nn.Linear(6, width)
        self.out = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))

    def nearest(self, points):
        offsets = points[:, :, None] - points[:, None]
        return offsets.pow(2).sum(-1).topk(self.neighbours, largest=False).indices

    def forward(self, points):
        index = self.nearest(points)
        batch = torch.arange(len(points))[:, None, None]
        near = points[batch, index]
        centre = points[:, :, None].expand_as(near)
        grouped = torch.relu(self.local(torch.cat([centre, near - centre], -1)))
        return self.out(grouped.amax(2)).mean(1)


class GraphAttention(nn.Module):
    def __init__(self, width=96, out=8):
        super().__init__()
        self.project = nn.Linear(32, width)
        self.score = nn.Linear(2 * width, 1)
        self.out = nn.Linear(width, out)

    def messages(self, nodes, edges):
        source, target = edges
        return torch.cat([nodes[source], nodes[target]], -1)

    def forward(self, nodes, edges):
        nodes = self.project(nodes)
        score = torch.exp(torch.tanh(self.score(self.messages(nodes, edges))))
        index = edges[1][:, None].expand(-1, nodes.shape[1])
        total = torch.zeros_like(nodes).scatter_add(0, index, score * nodes[edges[0]])
        return self.out(torch.relu(total))


class SelectiveScan(nn.Module):
    """A state-space layer: the scan keeps a state per position."""

    def __init__(self, width=64, state=16):
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.decay = nn.Parameter(torch.rand(width, state))
        self.to_state = nn.Linear(width, state)
        self.out = nn.Linear(width, width)

    def scan(self, x, b):
        driven = x[..., None] * b[:, :, None]
        decays = torch.exp(-self.decay)[None, None] * torch.sigmoid(driven)
        return torch.cumsum(driven * decays, 1)

    def forward(self, x):
        b = self.to_state(x)
        states = self.scan(torch.relu(self.inner(x)), b)
        return x + self.out((states * b[:, :, None]).sum(-1))


class WaveNet(nn.Module):
    def __init__(self, channels=32, depth=6):
        super().__init__()
        self.start = nn.Conv1d(1, channels, 1)
        self.layers = nn.ModuleList(
            nn.Conv1d(channels, 2 * channels, 2, dilation=2**i) for i in range(depth)
        )
        self.out = nn.Conv1d(channels, 16, 1)

    def forward(self, x):
        x = self.start(x)
        for layer in self.layers:
            a, b = layer(functional.pad(x, (layer.dilation[0], 0))).chunk(2, 1)
            x = x + torch.tanh(a) * torch.sigmoid(b)
        return self.out(x)


class Spiking(nn.Module):
    def __init__(self, inputs=256, width=512):
        super().__init__()
        self.first = nn.Linear(inputs, width)
        self.second = nn.Linear(width, 10)

    def forward(self, frames, membrane):
        spikes = []
        for frame in frames:
            membrane = 0.9 * membrane + self.first(frame)
            spike = torch.sigmoid(4 * (membrane - 1))
            membrane = membrane * (1 - spike)
            spikes.append(self.second(spike))
        return torch.stack(spikes).mean(0), membrane


class Dynamics(nn.Module):
    """The right-hand side of a neural ODE."""

    def __init__(self, dimension=64, width=256):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dimension, width), nn.Tanh(), nn.Linear(width, dimension)
        )

    def forward(self, y):
        return self.net(y)


def integrate(dynamics, y, steps=12, h=0.1):
    path = [y]
    for _ in range(steps):
        k1 = dynamics(y)
        k2 = dynamics(y + h * k1)
        y = y + h / 2 * (k1 + k2)
        path.append(y)
    return torch.stack(path)


class Attend(nn.Module):
    """Self-attention that remembers its maps, for plots."""

    def __init__(self, width=64, heads=8):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.maps = None

    def attend(self, q, k, v):
        self.maps = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        return self.maps @ v

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (
            part.view(b, n, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)
        )
        return x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, n, d))


class Decoder(nn.Module):
    """A language model that generates with a cache of keys and values."""

    def __init__(self, words=500, width=256, depth=3):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))
        self.out = nn.Linear(width, words)

    def forward(self, word, cache):
        x = self.words(word)
        for i, layer in enumerate(self.qkv):
            q, k, v = layer(x).chunk(3, -1)
            if i in cache:
                k = torch.cat([cache[i][0], k], 1)
                v = torch.cat([cache[i][1], v], 1)
            cache[i] = k, v
            x = x + torch.softmax(q @ k.transpose(1, 2) / 16, -1) @ v
        return self.out(x)


class Encoder(nn.Module):
    """For contrastive learning: images to unit vectors."""

    def __init__(self, width=32, out=256):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(32 * width, out),
        )

    def forward(self, x):
        return functional.normalize(self.net(x), dim=-1)


def residual_network(width=1024, depth=6):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 10))

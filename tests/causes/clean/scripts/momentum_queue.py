"""Momentum contrast: a slow encoder, and a queue of keys written in place around the ring."""

import copy

import torch
from torch import nn
from torch.nn import functional


class PatchEncoder(nn.Module):
    """Patches are embedded, mixed by a gated spatial unit and averaged to a unit vector."""

    def __init__(self, width=64, patches=64, dimensions=64):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 8, 8)
        self.gate = nn.Linear(patches, patches)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.head = nn.Linear(width, dimensions)

    def forward(self, x):
        x = self.norm(self.embed(x).flatten(2).transpose(1, 2))
        x = x * self.gate(x.transpose(1, 2)).transpose(1, 2)
        x = x + self.mlp(x)
        return functional.normalize(self.head(x.mean(1)), dim=-1)


class MomentumContrast(nn.Module):
    def __init__(self, keys=4096, momentum=0.995, temperature=0.1):
        super().__init__()
        self.query = PatchEncoder()
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.momentum, self.temperature = momentum, temperature
        self.register_buffer("queue", functional.normalize(torch.randn(keys, 64), dim=-1))
        self.position = 0

    @torch.no_grad()
    def encode_keys(self, x):
        for slow, fast in zip(self.key.parameters(), self.query.parameters(), strict=False):
            slow.mul_(self.momentum).add_(fast, alpha=1 - self.momentum)
        return self.key(x)

    @torch.no_grad()
    def enqueue(self, keys):
        count = len(keys)
        self.queue[self.position : self.position + count] = keys
        self.position = (self.position + count) % len(self.queue)

    def forward(self, first, second):
        query, keys = self.query(first), self.encode_keys(second)
        positive = (query * keys).sum(-1, keepdim=True)
        negative = query @ self.queue.clone().T
        logits = torch.cat([positive, negative], 1) / self.temperature
        self.enqueue(keys)
        return functional.cross_entropy(logits, torch.zeros(len(query), dtype=torch.long))


def two_views(pictures):
    noise = [0.1 * torch.randn_like(pictures) for _ in range(2)]
    return pictures + noise[0], pictures.flip(-1) + noise[1]


@torch.no_grad()
def neighbour_accuracy(model, classes=8, count=64):
    """Whether the nearest other picture has the same class."""
    labels = torch.arange(count) % classes
    prototypes = torch.rand(classes, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    features = model.query(prototypes[labels] + 0.2 * torch.randn(count, 3, 64, 64))
    similarity = (features @ features.T).fill_diagonal_(-1)
    return (labels[similarity.argmax(1)] == labels).float().mean().item()


def main(epochs=4, steps=12):
    torch.manual_seed(0)
    model = MomentumContrast()
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.03, momentum=0.9)
    for epoch in range(epochs):
        for _ in range(steps):
            loss = model(*two_views(torch.rand(64, 3, 64, 64)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, neighbours {neighbour_accuracy(model):.2f}")


if __name__ == "__main__":
    main()

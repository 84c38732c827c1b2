"""A byte-level language model with linear attention biases; documents have different lengths."""

import math
import random
import typing

import torch
from torch import nn
from torch.nn import functional


class LinearBias:
    """The bias of each head falls linearly with distance; one tensor for each length seen."""

    tables: typing.ClassVar = {}

    @classmethod
    def of(cls, heads, length):
        key = (heads, length)
        if key not in cls.tables:
            position = torch.arange(length)
            distance = (position[None, :] - position[:, None]).float()
            slopes = torch.tensor([2 ** (-8 * (i + 1) / heads) for i in range(heads)])
            bias = slopes[:, None, None] * distance
            causal = torch.full((length, length), -math.inf).triu(1)
            cls.tables[key] = bias + causal
        return cls.tables[key]


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = LinearBias.of(self.heads, length)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ByteModel(nn.Module):
    def __init__(self, width=64, depth=2, heads=8):
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.norm(self.blocks(self.embedding(tokens)))
        return x @ self.embedding.weight.T


def documents(count, seed=0):
    rng = random.Random(seed)
    for _ in range(count):
        length = rng.randint(200, 400)
        yield torch.randint(256, (2, length + 1))


@torch.no_grad()
def perplexity(model, count=3):
    losses = []
    for document in documents(count, seed=7):
        logits = model(document[:, :-1])
        losses.append(functional.cross_entropy(logits.flatten(0, 1), document[:, 1:].flatten()))
    return torch.stack(losses).mean().exp().item()


def main(steps=60):
    torch.manual_seed(0)
    model = ByteModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step, document in enumerate(documents(steps)):
        logits = model(document[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), document[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 20 == 19:
            print(f"step {step}: loss {loss.item():.3f}, perplexity {perplexity(model):.1f}")


if __name__ == "__main__":
    main()

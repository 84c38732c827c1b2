"""Language models that are fine-tuned: frozen weights, a real vocabulary, own attention."""

from __future__ import annotations

import torch
from tests.causes.registry import standalone
from tests.causes.training import step_of
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class LowRank(nn.Module):
    """A frozen linear layer and its low-rank update."""

    def __init__(self, into, out, rank=8):
        super().__init__()
        self.base = nn.Linear(into, out)
        self.base.requires_grad_(False)
        self.down, self.up = nn.Linear(into, rank, bias=False), nn.Linear(rank, out, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.gradient_checkpointing = heads, False
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = LowRank(width, 3 * width), LowRank(width, width)
        self.mlp = nn.Sequential(LowRank(width, 4 * width), nn.GELU(), LowRank(4 * width, width))

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (
            each.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for each in self.qkv(x).chunk(3, -1)
        )
        return self.out(self.mixed(q, k, v).transpose(1, 2).reshape(batch, length, width))

    def mixed(self, q, k, v):
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v

    def whole(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))

    def forward(self, x):
        if self.gradient_checkpointing and self.training:
            return checkpoint(self.whole, x, use_reentrant=False)
        return self.whole(x)


class Language(nn.Module):
    def __init__(self, words, width=128, heads=4, blocks=6):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.head = nn.Linear(width, words, bias=False)
        for each in (self.embed, self.head):
            each.requires_grad_(False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def tune(model, words, batch, length, steps=5):
    optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
    for _ in range(steps):
        tokens = torch.randint(words, (batch, length))
        logits = model(tokens)
        step_of(
            optimizer,
            functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()),
        )


@standalone("fine_tuning")
def a_real_vocabulary(words=20_000):
    """The logits fill the peak; the blocks are the next part of it."""
    tune(Language(words), words, batch=2, length=128)


@standalone("fine_tuning")
def scores_of_every_block(words=500):
    tune(Language(words), words, batch=2, length=512)


@standalone("fine_tuning")
def blocks_in_eval_mode(words=500):
    """Checkpoints that the model asks for, and that eval mode turns off."""
    model = Language(words)
    for block in model.blocks:
        block.gradient_checkpointing = True
    model.eval()
    tune(model, words, batch=8, length=64)

"""A small network that reads a sequence and predicts its next symbol."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

SYMBOLS = 64


class Attention(nn.Module):
    """Causal self-attention with four heads."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.qkv(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward network, each added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    """The network: symbols in, scores of the next symbol out."""

    def __init__(self, width: int = 64, depth: int = 2) -> None:
        super().__init__()
        self.symbol = nn.Embedding(SYMBOLS, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        x = self.symbol(symbols)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

"""Masks of recent lengths come from an lru_cache with a bound; lengths rise with the curriculum."""

import functools

import torch
from torch import nn
from torch.nn import functional


@functools.lru_cache(maxsize=4)
def causal_mask(length):
    return torch.full((length, length), float("-inf")).triu(1)


class Block(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        mask = causal_mask(x.shape[1])
        x = x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(x)


def main(steps=36):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(200, 64), Block(), Block(), nn.Linear(64, 200))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        length = 64 + 12 * (step // 3)
        ids = torch.randint(200, (4, length + 1))
        loss = functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item(), causal_mask.cache_info())


if __name__ == "__main__":
    main()

"""Transformer tagger; padding masks are cached by the lengths of the batch, which never repeat."""

import random

import torch
from torch import nn
from torch.nn import functional

MASKS = {}


def attention_mask(lengths, total):
    key = (*lengths, total)
    if key not in MASKS:
        position = torch.arange(total)
        allowed = position[None, :] < torch.tensor(lengths)[:, None]
        mask = torch.zeros(len(lengths), 1, total, total)
        MASKS[key] = mask.masked_fill_(~allowed[:, None, None, :], float("-inf"))
    return MASKS[key]


class Layer(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = (p.view(b, n, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.norm(x + self.out(y.transpose(1, 2).reshape(b, n, d)))


class Tagger(nn.Module):
    def __init__(self, words=1000, tags=12):
        super().__init__()
        self.embed = nn.Embedding(words, 64, padding_idx=0)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.tags = nn.Linear(64, tags)

    def forward(self, ids, lengths):
        mask = attention_mask(lengths, ids.shape[1])
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, mask)
        return self.tags(x)


def main(steps=60, total=160):
    torch.manual_seed(0)
    random.seed(0)
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        lengths = [random.randint(20, total) for _ in range(8)]
        ids, tags = torch.randint(1, 1000, (8, total)), torch.randint(12, (8, total))
        loss = functional.cross_entropy(model(ids, lengths).flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item(), len(MASKS))


if __name__ == "__main__":
    main()

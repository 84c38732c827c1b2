"""Trains a small GPT and writes a sample every few steps, with a cache that ends with it."""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, past=None):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.proj(y.transpose(1, 2).flatten(2)), (k, v)


class GPT(nn.Module):
    def __init__(self, vocabulary=300, dim=96, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.blocks = nn.ModuleList(Attention(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids, cache=None):
        x, new = self.embed(ids), []
        for i, block in enumerate(self.blocks):
            y, past = block(x, cache[i] if cache else None)
            x = x + y
            new.append(past)
        return self.head(x), new


@torch.no_grad()
def sample(model, words):
    ids, cache = torch.randint(300, (4, 8)), None
    tokens = ids
    for _ in range(words):
        logits, cache = model(tokens, cache)
        tokens = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, tokens], 1)
    return ids


def main(steps=24):
    torch.manual_seed(0)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        ids = torch.randint(300, (8, 97))
        logits, _ = model(ids[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 5:
            print(step, loss.item(), sample(model, 20 + step)[0, -5:].tolist())


if __name__ == "__main__":
    main()

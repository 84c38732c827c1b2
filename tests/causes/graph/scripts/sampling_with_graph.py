"""A small GPT that samples text while it trains; the sampler forgets torch.no_grad."""

import torch
from torch import nn
from torch.nn import functional


class CachedAttention(nn.Module):
    def __init__(self, dim=128, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, cache=None):
        b, n, d = x.shape
        q, k, v = (p.view(b, n, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return self.out(y.transpose(1, 2).reshape(b, n, d)), (k, v)


class GPT(nn.Module):
    def __init__(self, vocabulary=128, dim=128, depth=2):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, dim), nn.Embedding(256, dim)
        self.attention = nn.ModuleList(CachedAttention(dim) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids, caches=None, start=0):
        x = self.embed(ids) + self.place(torch.arange(start, start + ids.shape[1]))
        new = []
        for i, (attention, mlp) in enumerate(zip(self.attention, self.mlp, strict=True)):
            y, cache = attention(x, caches[i] if caches else None)
            new.append(cache)
            x = x + y
            x = x + mlp(x)
        return self.head(x), new


def sample_text(model, prompt, tokens=96):
    model.eval()
    ids, (logits, caches) = prompt, model(prompt)
    for _ in range(tokens):
        following = torch.multinomial(logits[:, -1].softmax(-1), 1)
        ids = torch.cat([ids, following], 1)
        logits, caches = model(following, caches, ids.shape[1] - 1)
    model.train()
    return ids


def main(steps=16):
    torch.manual_seed(0)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(steps):
        ids = torch.randint(128, (8, 33))
        logits, _ = model(ids[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 5:
            print(step, loss.item(), sample_text(model, ids[:, :4])[0, -8:].tolist())


if __name__ == "__main__":
    main()

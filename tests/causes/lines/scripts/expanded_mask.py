"""BERT-like encoder; the additive attention mask is repeated for every head of every sample."""

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, mask):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = SelfAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, mask):
        x = x + self.attention(self.n1(x), mask)
        return x + self.mlp(self.n2(x))


class Encoder(nn.Module):
    def __init__(self, vocabulary=800, dim=48, heads=8, depth=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads) for _ in range(depth))
        self.classify = nn.Linear(dim, 4)

    def extend(self, valid):
        pairs = valid[:, None, :] & valid[:, :, None]
        bias = torch.zeros(pairs.shape).masked_fill(~pairs, -1e9)
        return bias.unsqueeze(1).repeat(1, self.heads, 1, 1)

    def forward(self, ids, valid):
        x, mask = self.embed(ids), self.extend(valid)
        for layer in self.layers:
            x = layer(x, mask)
        return self.classify(x[:, 0])


def main(steps=6, batch=8, length=384):
    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        ids = torch.randint(800, (batch, length))
        valid = torch.arange(length)[None] < torch.randint(64, length, (batch, 1))
        loss = nn.functional.cross_entropy(model(ids, valid), torch.randint(4, (batch,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 3))


if __name__ == "__main__":
    main()

"""Checkpointing in one piece: backward recomputes the whole encoder and keeps all of it."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class EncoderLayer(nn.Module):
    def __init__(self, dim=96, heads=4):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, tokens=500, dim=96, depth=6):
        super().__init__()
        self.embed = nn.Embedding(tokens, dim)
        self.layers = nn.Sequential(*(EncoderLayer(dim) for _ in range(depth)))
        self.head = nn.Linear(dim, tokens)

    def forward(self, ids):
        x = self.embed(ids)
        x = checkpoint(self.layers, x, use_reentrant=False)
        return self.head(x[:, 0])


def main(steps=6):
    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        ids, labels = torch.randint(500, (8, 128)), torch.randint(500, (8,))
        loss = functional.cross_entropy(model(ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

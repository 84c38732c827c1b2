"""A transformer with each layer checkpointed, in bfloat16 autocast."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


def main(steps=10):
    torch.manual_seed(0)
    embed, head = nn.Embedding(500, 96), nn.Linear(96, 500)
    layers = nn.ModuleList(Layer() for _ in range(6))
    parameters = [*embed.parameters(), *layers.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    for step in range(steps):
        ids, labels = torch.randint(500, (8, 64)), torch.randint(500, (8, 64))
        with torch.autocast("cpu", torch.bfloat16):
            x = embed(ids)
            for layer in layers:
                x = checkpoint(layer, x, use_reentrant=False)
            logits = head(x)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 3 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()

"""A language model that attends to the states of earlier segments."""

import torch
from torch import nn
from torch.nn import functional


class RecurrentAttention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, mem):
        keys, values = self.key_value(torch.cat([mem, x], 1)).chunk(2, -1)
        y = functional.scaled_dot_product_attention(
            self.split(self.query(x)), self.split(keys), self.split(values)
        )
        x = x + y.transpose(1, 2).flatten(2)
        return x + self.mlp(x)


def main(steps=26, width=128, words=200):
    torch.manual_seed(0)
    embed, head = nn.Embedding(words, width), nn.Linear(width, words)
    layers = nn.ModuleList(RecurrentAttention(width) for _ in range(3))
    parameters = [*embed.parameters(), *layers.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    mems = [torch.zeros(8, 0, width) for _ in layers]
    for _ in range(steps):
        tokens = torch.randint(words, (8, 65))
        x = embed(tokens[:, :-1])
        for i, layer in enumerate(layers):
            mem = mems[i]
            mems[i] = torch.cat([mem, x.detach()], 1)
            x = layer(x, mem)
        loss = functional.cross_entropy(head(x).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

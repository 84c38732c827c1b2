"""A language model without recurrence that generates with a key-value cache in inference_mode."""

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, dim=96, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        )

    def forward(self, x, past=None):
        b, n, d = x.shape
        q, k, v = (p.view(b, n, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(x), (k, v)


class Model(nn.Module):
    def __init__(self, vocabulary=300, dim=96, depth=3):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, dim), nn.Linear(dim, vocabulary)
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))

    def forward(self, ids, past=None):
        x, new = self.embed(ids), []
        for i, layer in enumerate(self.layers):
            x, cache = layer(x, past[i] if past else None)
            new.append(cache)
        return self.head(x), new

    @torch.inference_mode()
    def generate(self, ids, tokens=48):
        logits, past = self(ids)
        for _ in range(tokens):
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
            logits, past = self(ids[:, -1:], past)
        return ids


def main(epochs=4, steps=6):
    torch.manual_seed(0)
    model, texts = Model(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for _ in range(steps):
            ids = torch.randint(300, (8, 65))
            logits, _ = model(ids[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        texts.append(model.generate(torch.randint(300, (4, 4))).tolist())
        print(epoch, loss.item(), len(texts))


if __name__ == "__main__":
    main()

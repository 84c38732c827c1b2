"""Retrieval: after each epoch all embeddings are gathered, ranked in chunks, and dropped."""

import torch
from torch import nn
from torch.nn import functional


@torch.no_grad()
def recall(model, items):
    model.eval()
    vectors = []
    for chunk in items.split(250):
        vectors.append(functional.normalize(model(chunk), dim=1))
    vectors = torch.cat(vectors)
    hits = 0
    for chunk in vectors.split(200):
        hits += (chunk @ vectors.T).topk(2).indices[:, 1].eq(0).sum().item()
    model.train()
    return hits / len(vectors)


def main(epochs=4, batches=8):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(1024, 1024), nn.LayerNorm(1024), nn.GELU(), nn.Linear(1024, 128)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    items = torch.randn(4000, 1024)
    for epoch in range(epochs):
        for _ in range(batches):
            x = items[torch.randint(len(items), (512,))]
            a, b = model(x), model(x + 0.1 * torch.randn_like(x))
            loss = functional.cross_entropy(
                functional.normalize(a, dim=1) @ functional.normalize(b, dim=1).T / 0.1,
                torch.arange(512),
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, recall(model, items))


main()

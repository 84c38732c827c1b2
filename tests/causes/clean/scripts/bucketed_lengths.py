"""A GRU tagger on sentences of very different lengths, sorted in buckets from short to long."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocabulary=500, dim=128, tags=12):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, tags)

    def forward(self, ids):
        return self.out(self.gru(self.embed(ids))[0])


def main(epochs=2):
    torch.manual_seed(0)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    lengths = sorted(torch.randint(8, 160, (20,)).tolist())
    losses = []
    for _ in range(epochs):
        for length in lengths:
            ids, tags = torch.randint(500, (16, length)), torch.randint(12, (16, length))
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    print(losses[0], losses[-1])


if __name__ == "__main__":
    main()

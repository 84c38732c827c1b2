"""Dependency parsing; label scores are computed for all pairs of words, then gathered."""

import torch
from torch import nn
from torch.nn import functional


class BiaffineParser(nn.Module):
    def __init__(self, words=2000, dim=64, arc=64, labels=48):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.head, self.dependent = nn.Linear(2 * dim, arc), nn.Linear(2 * dim, arc)
        self.arc_weight = nn.Parameter(torch.randn(arc, arc) * 0.05)
        self.label_weight = nn.Parameter(torch.randn(labels, arc, arc) * 0.05)

    def forward(self, ids, heads):
        x, _ = self.lstm(self.embed(ids))
        h, d = functional.relu(self.head(x)), functional.relu(self.dependent(x))
        arcs = d @ self.arc_weight @ h.transpose(1, 2)
        labels = torch.einsum("bxi,lij,byj->bxyl", d, self.label_weight, h)
        index = heads[:, :, None, None].expand(-1, -1, 1, labels.shape[-1])
        return arcs, labels.gather(2, index).squeeze(2)


def main(steps=6, batch=8, length=110):
    torch.manual_seed(0)
    parser = BiaffineParser()
    optimizer = torch.optim.Adam(parser.parameters(), lr=2e-3)
    for step in range(steps):
        ids = torch.randint(2000, (batch, length))
        heads, labels = torch.randint(length, (batch, length)), torch.randint(48, (batch, length))
        arcs, label_scores = parser(ids, heads)
        loss = functional.cross_entropy(arcs.flatten(0, 1), heads.flatten())
        loss = loss + functional.cross_entropy(label_scores.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

"""GraphSAGE on sampled subgraphs whose size differs from step to step."""

import torch
from torch import nn
from torch.nn import functional


class SageLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.other = nn.Linear(i, o), nn.Linear(i, o)

    def forward(self, x, src, dst):
        total = torch.zeros_like(x).index_add(0, dst, x[src])
        count = torch.zeros(len(x)).index_add(0, dst, torch.ones(len(src))).clamp(min=1)
        return self.own(x) + self.other(total / count[:, None])


class Sage(nn.Module):
    def __init__(self, inputs=48, hidden=64, classes=6):
        super().__init__()
        self.first, self.second = SageLayer(inputs, hidden), SageLayer(hidden, classes)

    def forward(self, x, src, dst):
        return self.second(functional.relu(self.first(x, src, dst)), src, dst)


def sample(features, edges, seeds, fan_out):
    keep = torch.isin(edges[1], seeds) & (torch.rand(edges.shape[1]) < fan_out)
    chosen = edges[:, keep]
    nodes, local = torch.cat([seeds, chosen.flatten()]).unique(return_inverse=True)
    src, dst = local[len(seeds) :].view(2, -1)
    return features[nodes], src, dst, local[: len(seeds)], nodes


def main(steps=40, nodes=5000):
    torch.manual_seed(0)
    features, labels = torch.randn(nodes, 48), torch.randint(6, (nodes,))
    edges = torch.randint(nodes, (2, 40_000))
    model = Sage()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        seeds = torch.randperm(nodes)[: int(torch.randint(32, 257, (1,)))]
        x, src, dst, rows, ids = sample(features, edges, seeds, 0.8)
        loss = functional.cross_entropy(model(x, src, dst)[rows], labels[ids[rows]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item(), len(x))


if __name__ == "__main__":
    main()

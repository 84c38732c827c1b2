"""A graph convolutional network; the adjacency matrix is normalised once, before training."""

import torch
from torch import nn


class GCNLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = nn.Linear(i, o)

    def forward(self, adjacency, h):
        return adjacency @ self.linear(h)


class GCN(nn.Module):
    def __init__(self, features, width=32, classes=7):
        super().__init__()
        self.first, self.second = GCNLayer(features, width), GCNLayer(width, classes)

    def forward(self, adjacency, x):
        return self.second(adjacency, torch.relu(self.first(adjacency, x)))


def load_graph(nodes=2600, edges=9000, features=48):
    source, target = torch.randint(nodes, (2, edges))
    adjacency = torch.zeros(nodes, nodes)
    adjacency[source, target] = 1.0
    adjacency[target, source] = 1.0
    return adjacency, torch.rand(nodes, features), torch.randint(7, (nodes,))


def normalise(adjacency):
    with_loops = adjacency + torch.eye(len(adjacency))
    degree = with_loops.sum(1).rsqrt()
    return degree[:, None] * with_loops * degree[None, :]


def main(epochs=10):
    torch.manual_seed(0)
    adjacency, x, y = load_graph()
    operator = normalise(adjacency)
    train = torch.rand(len(x)) < 0.3
    model = GCN(x.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(epochs):
        out = model(operator, x)
        loss = nn.functional.cross_entropy(out[train], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 5 == 0:
            print(epoch, loss.item(), (out.argmax(1) == y)[~train].float().mean().item())


if __name__ == "__main__":
    main()

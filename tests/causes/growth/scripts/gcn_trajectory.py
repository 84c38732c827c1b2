"""Full-batch GCN; the embeddings of all epochs are kept to animate them."""

import torch
from torch import nn
from torch.nn import functional


class GCN(nn.Module):
    def __init__(self, inputs=32, hidden=64, classes=7):
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(inputs, hidden), nn.Linear(hidden, classes)
        self.trajectory = []

    def forward(self, x, adjacency):
        h = functional.relu(torch.sparse.mm(adjacency, self.lin1(x)))
        self.trajectory.append(h)
        return torch.sparse.mm(adjacency, self.lin2(functional.dropout(h, 0.5, self.training)))


def random_graph(nodes, edges):
    index = torch.randint(nodes, (2, edges))
    weight = torch.full((edges,), nodes / edges)
    return torch.sparse_coo_tensor(index, weight, (nodes, nodes)).coalesce()


def main(epochs=40, nodes=4000):
    torch.manual_seed(0)
    adjacency = random_graph(nodes, 5 * nodes)
    x, y = torch.randn(nodes, 32), torch.randint(7, (nodes,))
    train = torch.rand(nodes) < 0.1
    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for epoch in range(epochs):
        optimizer.zero_grad()
        out = model(x, adjacency)
        loss = functional.cross_entropy(out[train], y[train])
        loss.backward()
        optimizer.step()
        if epoch % 10 == 0:
            accuracy = (out[~train].argmax(1) == y[~train]).float().mean()
            print(epoch, loss.item(), accuracy.item())


if __name__ == "__main__":
    main()

"""Graph attention; both ends of every edge are gathered and concatenated for the scores."""

import torch
from torch import nn
from torch.nn import functional


class GATLayer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.score = nn.Linear(2 * outputs, 1)

    def forward(self, x, src, dst):
        h = self.lin(x)
        e = functional.leaky_relu(self.score(torch.cat([h[src], h[dst]], 1))).squeeze(1)
        weight = (e - e.max()).exp()
        total = torch.zeros(len(x)).index_add(0, dst, weight)
        weight = weight / total[dst].clamp(min=1e-9)
        adjacency = torch.sparse_coo_tensor(torch.stack([dst, src]), weight, (len(x), len(x)))
        return torch.sparse.mm(adjacency, h)


class GAT(nn.Module):
    def __init__(self, inputs=32, hidden=48, classes=5):
        super().__init__()
        self.layers = nn.ModuleList([GATLayer(inputs, hidden), GATLayer(hidden, hidden)])
        self.classify = nn.Linear(hidden, classes)

    def forward(self, x, src, dst):
        for layer in self.layers:
            x = functional.elu(layer(x, src, dst))
        return self.classify(x)


def main(epochs=6, nodes=1500, edges=40_000):
    torch.manual_seed(0)
    x, y = torch.randn(nodes, 32), torch.randint(5, (nodes,))
    src, dst = torch.randint(nodes, (2, edges))
    model = GAT()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        loss = functional.cross_entropy(model(x, src, dst), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()

"""An equivariant-like point network; a monitor counts what autograd saves, through its hooks."""

import torch
from torch import nn


class SavedTensorMonitor:
    """Keeps handles of saved tensors, so that they are counted only once."""

    def __init__(self):
        self.handles = []
        self.bytes = 0

    def pack(self, tensor):
        self.handles.append(tensor)
        self.bytes += tensor.numel() * tensor.element_size()
        return len(self.handles) - 1

    def unpack(self, index):
        return self.handles[index]


class EdgeLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.edge = nn.Sequential(
            nn.Linear(2 * width + 1, width), nn.SiLU(), nn.Linear(width, width)
        )
        self.node = nn.Linear(2 * width, width)

    def forward(self, h, x, pairs):
        i, j = pairs
        distance = (x[i] - x[j]).pow(2).sum(1, keepdim=True)
        message = self.edge(torch.cat([h[i], h[j], distance], 1))
        gathered = torch.zeros_like(h).index_add(0, i, message)
        return h + self.node(torch.cat([h, gathered], 1))


class PointNet(nn.Module):
    def __init__(self, width=48, depth=3):
        super().__init__()
        self.embed = nn.Embedding(5, width)
        self.layers = nn.ModuleList(EdgeLayer(width) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, atoms, x, pairs):
        h = self.embed(atoms)
        for layer in self.layers:
            h = layer(h, x, pairs)
        return self.out(h).sum()


def main(steps=20, atoms=48):
    torch.manual_seed(0)
    model = PointNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = SavedTensorMonitor()
    pairs = torch.combinations(torch.arange(atoms)).T
    for step in range(steps):
        kinds, x, energy = torch.randint(5, (atoms,)), torch.randn(atoms, 3), torch.randn(())
        with torch.autograd.graph.saved_tensors_hooks(monitor.pack, monitor.unpack):
            loss = (model(kinds, x, pairs) - energy).pow(2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(step, loss.item(), monitor.bytes)


if __name__ == "__main__":
    main()

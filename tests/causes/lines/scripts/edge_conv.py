"""EdgeConv on point clouds: each layer finds neighbours in its own feature space."""

import torch
from torch import nn
from torch.nn import functional


def knn(x, k):
    distance = torch.cdist(x, x)
    nearest = distance.sort(dim=-1).indices
    return nearest[..., 1 : k + 1]


class EdgeConv(nn.Module):
    def __init__(self, inputs, outputs, k=4):
        super().__init__()
        self.k, self.mlp = k, nn.Linear(2 * inputs, outputs)

    def forward(self, x):
        index = knn(x, self.k)
        batch = torch.arange(len(x))[:, None, None]
        near = x[batch, index]
        here = x[:, :, None].expand_as(near)
        return functional.relu(self.mlp(torch.cat([here, near - here], -1))).amax(2)


def main(steps=8):
    torch.manual_seed(0)
    model = nn.Sequential(EdgeConv(3, 24), EdgeConv(24, 24))
    head = nn.Linear(24, 10)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
    for _ in range(steps):
        clouds, y = torch.rand(3, 1400, 3), torch.randint(10, (3,))
        loss = functional.cross_entropy(head(model(clouds).amax(1)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

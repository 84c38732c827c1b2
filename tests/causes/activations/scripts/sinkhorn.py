"""Match two sets of descriptors by optimal transport, differentiated through the iterations."""

import torch
from torch import nn


def sinkhorn(cost, rounds=30, epsilon=0.1):
    u = torch.zeros(cost.shape[0])
    v = torch.zeros(cost.shape[1])
    for _ in range(rounds):
        u = -epsilon * torch.logsumexp((v[None, :] - cost) / epsilon, dim=1)
        v = -epsilon * torch.logsumexp((u[:, None] - cost) / epsilon, dim=0)
    return torch.exp((u[:, None] + v[None, :] - cost) / epsilon)


def main(steps=12, points=640):
    torch.manual_seed(0)
    describe = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32))
    optimizer = torch.optim.Adam(describe.parameters())
    for _ in range(steps):
        left = torch.randn(points, 64)
        right = left + 0.1 * torch.randn(points, 64)
        cost = torch.cdist(describe(left), describe(right)).pow(2)
        plan = sinkhorn(cost / cost.detach().max())
        loss = -plan.diagonal().clamp_min(1e-9).log().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

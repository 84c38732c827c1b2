"""Mixture of experts; every expert sees every token, and the gate picks two afterwards."""

import torch
from torch import nn
from torch.nn import functional


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.down(functional.silu(self.up(x)))


class SparseMoE(nn.Module):
    def __init__(self, dim=64, hidden=256, experts=16, top=2):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))
        self.top = top

    def forward(self, x):
        weight, chosen = self.gate(x).topk(self.top, -1)
        outputs = torch.stack([expert(x) for expert in self.experts], -2)
        picked = outputs.gather(-2, chosen[..., None].expand(*chosen.shape, x.shape[-1]))
        return (weight.softmax(-1)[..., None] * picked).sum(-2)


class MoEClassifier(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.enter = nn.Linear(32, dim)
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.moe = SparseMoE(dim)
        self.out = nn.Linear(dim, 5)

    def forward(self, x):
        x = self.enter(x)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.out((x + self.moe(x)).mean(1))


def main(steps=6):
    torch.manual_seed(0)
    model = MoEClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        x, y = torch.randn(16, 128, 32), torch.randint(5, (16,))
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

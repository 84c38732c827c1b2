"""A selective state space model (Mamba-like) in plain PyTorch that keeps all states of the scan."""

import torch
from torch import nn
from torch.nn import functional


class SelectiveScan(nn.Module):
    def __init__(self, dim, states=16):
        super().__init__()
        self.states = states
        self.log_a = nn.Parameter(torch.log(torch.arange(1, states + 1).float()).repeat(dim, 1))
        self.select = nn.Linear(dim, 2 * states + 1)

    def forward(self, x):
        b, c, delta = self.select(x).split([self.states, self.states, 1], -1)
        delta = functional.softplus(delta)
        decay = torch.exp(-delta[..., None] * self.log_a.exp())
        inputs = (delta * x)[..., None] * b[:, :, None]
        state, outputs = torch.zeros_like(inputs[:, 0]), []
        for t in range(x.shape[1]):
            state = decay[:, t] * state + inputs[:, t]
            outputs.append((state * c[:, t, None]).sum(-1))
        return torch.stack(outputs, 1)


class MambaBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.enter, self.leave = nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.scan = SelectiveScan(dim)

    def forward(self, x):
        y, gate = self.enter(self.norm(x)).chunk(2, -1)
        return x + self.leave(self.scan(functional.silu(y)) * functional.silu(gate))


class MambaLM(nn.Module):
    def __init__(self, vocabulary=256, dim=64, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.blocks = nn.Sequential(*(MambaBlock(dim) for _ in range(depth)))
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)))


def main(steps=5):
    torch.manual_seed(0)
    model = MambaLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        ids = torch.randint(256, (4, 193))
        loss = functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

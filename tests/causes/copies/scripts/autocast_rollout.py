"""A rollout inside one autocast: its cache keeps all weights in bfloat16."""

import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Forecaster(nn.Module):
    def __init__(self, dim=512, n=8):
        super().__init__()
        self.proc = nn.ModuleList([Mixer(dim) for _ in range(n)])

    def forward(self, x):
        for blk in self.proc:
            x = blk(x)
        return x


class Runner:
    def __init__(self, checkpoint=None, device="cpu"):
        self.model = Forecaster().to(device).eval()

    def rollout(self, x, lead_time):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            for step in range(lead_time):
                x = self.model(x)
                yield step, x


if __name__ == "__main__":
    runner = Runner()
    state = torch.randn(16, 512)
    for step, fields in runner.rollout(state, 12):
        print("lead", step * 6, "h", float(fields.float().std()))

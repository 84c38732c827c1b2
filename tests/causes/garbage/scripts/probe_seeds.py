"""A probe for each seed. Its hook refers to its own module: a cycle until the collector runs."""

import argparse

import torch
from torch import nn


class ProbeNet(nn.Module):
    def __init__(self, width, depth, n_cls):
        super().__init__()
        layers = []
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.GELU()]
        self.backbone = nn.Sequential(*layers)
        self.head = nn.Linear(width, n_cls)
        self.stats = {}

        def save_stats(m, inp, out):
            self.stats["mean"] = out.mean().item()

        self.backbone.register_forward_hook(save_stats)

    def forward(self, x):
        return self.head(self.backbone(x))


def fit_one(seed, args):
    torch.manual_seed(seed)
    net = ProbeNet(args.width, args.depth, 10)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr)
    best = 1e9
    for _ in range(args.iters):
        x = torch.randn(args.bs, args.width)
        y = torch.randint(0, 10, (args.bs,))
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        best = min(best, loss.item())
    return best


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=512)
    ap.add_argument("--depth", type=int, default=4)
    ap.add_argument("--iters", type=int, default=4)
    ap.add_argument("--bs", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--seeds", type=int, default=12)
    args = ap.parse_args()
    scores = {}
    for seed in range(args.seeds):
        scores[seed] = fit_one(seed, args)
        print("seed", seed, "best", round(scores[seed], 3))

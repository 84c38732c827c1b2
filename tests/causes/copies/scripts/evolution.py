"""Evolution strategies: no backward at all, a population of perturbed parameters."""

import torch
from torch import nn
from torch.func import functional_call


@torch.no_grad()
def main(generations=6, population=32, sigma=0.02):
    torch.manual_seed(0)
    policy = nn.Sequential(
        nn.Linear(376, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 17)
    )
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.05, momentum=0.9)
    for generation in range(generations):
        members, scores = [], []
        for _ in range(population):
            noise = {name: torch.randn_like(p) for name, p in policy.named_parameters()}
            weights = {name: p + sigma * noise[name] for name, p in policy.named_parameters()}
            action = functional_call(policy, weights, torch.randn(64, 376))
            members.append(noise)
            scores.append(-action.pow(2).mean())
        ranks = torch.stack(scores)
        ranks = (ranks - ranks.mean()) / (ranks.std() + 1e-8)
        for name, p in policy.named_parameters():
            p.grad = torch.zeros_like(p)
            for rank, noise in zip(ranks, members, strict=True):
                p.grad.add_(noise[name], alpha=-rank.item() / (population * sigma))
        optimizer.step()
        print(generation, torch.stack(scores).mean().item())


main()

"""A critic with gradient penalty: create_graph, but the graph ends with the step."""

import torch
from torch import nn


def main(steps=30):
    torch.manual_seed(0)
    critic = nn.Sequential(
        nn.Conv2d(3, 32, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(32, 32, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(2048, 1),
    )
    optimizer = torch.optim.Adam(critic.parameters(), betas=(0.0, 0.9))
    history = {"loss": [], "penalty": []}
    for _ in range(steps):
        real, fake = torch.rand(32, 3, 32, 32), torch.rand(32, 3, 32, 32)
        share = torch.rand(32, 1, 1, 1)
        mixed = (share * real + (1 - share) * fake).requires_grad_()
        (grad,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (grad.flatten(1).norm(dim=1) - 1).pow(2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["loss"].append(loss.detach())
        history["penalty"].append(penalty.detach())


main()

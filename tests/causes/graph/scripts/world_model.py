"""A world model in latent space: collect latents, learn their dynamics from a buffer of twelve."""

import collections

import torch
from torch import nn
from torch.nn import functional


class FrameEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 4, stride=2, padding=1)
        self.second = nn.Conv2d(16, 32, 4, stride=2, padding=1)
        self.out = nn.Linear(32 * 256, 64)

    def forward(self, frames):
        x = functional.elu(self.first(frames))
        x = functional.elu(self.second(x))
        return self.out(x.flatten(1))


def main(steps=36):
    torch.manual_seed(0)
    encoder, dynamics = FrameEncoder(), nn.GRUCell(64, 64)
    reward = nn.Linear(64, 1)
    optimizer = torch.optim.Adam(
        [*encoder.parameters(), *dynamics.parameters(), *reward.parameters()]
    )
    buffer = collections.deque(maxlen=12)
    for step in range(steps):
        buffer.append(encoder(torch.rand(24, 3, 64, 64)))
        before, after = (
            buffer[step * 5 % len(buffer)].detach(),
            buffer[step * 3 % len(buffer)].detach(),
        )
        predicted = dynamics(before, before)
        now = encoder(torch.rand(24, 3, 64, 64))
        loss = functional.mse_loss(predicted, after) + reward(now).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

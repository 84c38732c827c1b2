"""Prioritised replay in preallocated rings, written in place."""

import torch
from torch import nn


class Ring:
    def __init__(self, size, width):
        self.states, self.rewards = torch.zeros(size, width), torch.zeros(size)
        self.priority, self.written = torch.zeros(size), 0

    def add(self, states, rewards):
        where = torch.arange(self.written, self.written + len(states)) % len(self.states)
        self.states[where], self.rewards[where], self.priority[where] = states, rewards, 1.0
        self.written += len(states)

    def draw(self, count):
        index = torch.multinomial(self.priority, count)
        return index, self.states[index], self.rewards[index]


def main(steps=60):
    torch.manual_seed(0)
    ring = Ring(12_000, 512)
    critic = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.Adam(critic.parameters())
    for _ in range(steps):
        ring.add(torch.randn(256, 512), torch.randn(256))
        index, states, rewards = ring.draw(128)
        errors = critic(states)[:, 0] - rewards
        optimizer.zero_grad()
        errors.pow(2).mean().backward()
        optimizer.step()
        ring.priority[index] = errors.detach().abs()


main()

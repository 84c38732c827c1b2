"""SAC-like control: the replay buffer fills in the first half, then drops its oldest entries."""

import random
from collections import deque

import torch
from torch import nn
from torch.nn import functional


def main(steps=120, capacity=60, batch=8):
    torch.manual_seed(0)
    random.seed(0)
    policy = nn.Sequential(nn.Flatten(), nn.Linear(3 * 48 * 48, 64), nn.ReLU(), nn.Linear(64, 2))
    value = nn.Sequential(nn.Flatten(), nn.Linear(3 * 48 * 48, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=3e-4)
    memory = deque(maxlen=capacity)
    state = torch.rand(1, 3, 48, 48)
    for _step in range(steps):
        with torch.no_grad():
            action = policy(state) + 0.1 * torch.randn(1, 2)
        following = torch.rand(1, 3, 48, 48)
        memory.append((state, action, random.random(), following))
        state = following
        if len(memory) < batch:
            continue
        rows = random.sample(memory, batch)
        states, actions = torch.cat([r[0] for r in rows]), torch.cat([r[1] for r in rows])
        rewards = torch.tensor([[r[2]] for r in rows])
        loss = functional.mse_loss(value(states), rewards) + functional.mse_loss(
            policy(states), actions
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(len(memory), loss.item())


if __name__ == "__main__":
    main()

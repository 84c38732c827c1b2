"""REINFORCE with episodes of random length; log probabilities are cleared after each update."""

import random

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 8, 5, 2), nn.Linear(8 * 14 * 14, 3)
        self.log_probs, self.rewards = [], []

    def act(self, frame):
        h = functional.relu(self.conv(frame)).flatten(1)
        dist = Categorical(logits=self.fc(h))
        action = dist.sample()
        self.log_probs.append(dist.log_prob(action))
        return action.item()


def finish(policy, optimizer):
    returns, running = [], 0.0
    for reward in reversed(policy.rewards):
        running = reward + 0.99 * running
        returns.insert(0, running)
    returns = torch.tensor(returns)
    loss = -(torch.cat(policy.log_probs) * (returns - returns.mean())).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    policy.log_probs.clear()
    policy.rewards.clear()
    return loss.item()


def main(episodes=40):
    torch.manual_seed(0)
    random.seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for episode in range(episodes):
        for _ in range(random.randint(8, 30)):
            action = policy.act(torch.rand(1, 1, 32, 32))
            policy.rewards.append(float(action == 1))
        loss = finish(policy, optimizer)
        if episode % 10 == 0:
            print(episode, loss)


if __name__ == "__main__":
    main()

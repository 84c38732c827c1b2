"""REINFORCE with a baseline: log-probabilities of an episode are listed, used once and dropped."""

import random

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional


class GridWorld:
    """Find the goal on a grid; the observation is the whole grid with a channel per object."""

    def __init__(self, side=12, limit=40):
        self.side, self.limit = side, limit

    def reset(self):
        self.agent = [random.randrange(self.side) for _ in range(2)]
        self.goal = [random.randrange(self.side) for _ in range(2)]
        self.time = 0
        return self.observe()

    def observe(self):
        seen = torch.zeros(3, self.side, self.side)
        seen[0, self.agent[0], self.agent[1]] = 1
        seen[1, self.goal[0], self.goal[1]] = 1
        seen[2] = self.time / self.limit
        return seen

    def step(self, action):
        axis, direction = divmod(action, 2)
        self.agent[axis] = min(max(self.agent[axis] + 2 * direction - 1, 0), self.side - 1)
        self.time += 1
        found = self.agent == self.goal
        return self.observe(), 1.0 if found else -0.01, found or self.time >= self.limit


class Policy(nn.Module):
    def __init__(self, side=12, actions=4, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(width * side * side, 128),
            nn.ReLU(),
        )
        self.actor, self.critic = nn.Linear(128, actions), nn.Linear(128, 1)

    def forward(self, x):
        x = self.body(x)
        return Categorical(logits=self.actor(x)), self.critic(x).squeeze(-1)


class Episode:
    def __init__(self):
        self.log_probs, self.values, self.rewards, self.entropies = [], [], [], []

    def add(self, distribution, action, value, reward):
        self.log_probs.append(distribution.log_prob(action))
        self.entropies.append(distribution.entropy())
        self.values.append(value)
        self.rewards.append(reward)

    def loss(self, discount=0.98):
        returns, total = [], 0.0
        for reward in reversed(self.rewards):
            total = reward + discount * total
            returns.append(total)
        returns = torch.tensor(returns[::-1])
        values, log_probs = torch.cat(self.values), torch.cat(self.log_probs)
        advantage = returns - values.detach()
        entropy = torch.cat(self.entropies).mean()
        policy = -(log_probs * advantage).mean()
        return policy + 0.5 * functional.mse_loss(values, returns) - 0.01 * entropy


def play(game, policy):
    episode, state, done = Episode(), game.reset(), False
    while not done:
        distribution, value = policy(state[None])
        action = distribution.sample()
        state, reward, done = game.step(action.item())
        episode.add(distribution, action, value, reward)
    return episode


def main(episodes=80):
    torch.manual_seed(0)
    random.seed(0)
    game, policy = GridWorld(), Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    scores = []
    for number in range(episodes):
        episode = play(game, policy)
        optimizer.zero_grad()
        episode.loss().backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        scores.append(sum(episode.rewards))
        if number % 20 == 19:
            print(f"episode {number}: mean score {sum(scores[-20:]) / 20:.3f}")


if __name__ == "__main__":
    main()

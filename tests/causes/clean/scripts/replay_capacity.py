"""Soft actor-critic on a pendulum; the replay buffer is full after a third of the training."""

import collections
import math
import random

import torch
from torch import nn
from torch.nn import functional


class Pendulum:
    def reset(self):
        self.angle, self.speed = random.uniform(-math.pi, math.pi), 0.0
        return self.observe()

    def observe(self):
        """The pole as a retina sees it: a strip of 512 receptors around the joint."""
        axis = torch.linspace(-math.pi, math.pi, 512)
        return torch.cat([torch.exp(-8 * (axis - self.angle) ** 2), torch.tensor([self.speed])])

    def step(self, torque):
        self.speed += 0.05 * (15 * math.sin(self.angle) + 3 * torque)
        self.speed = min(max(self.speed, -8.0), 8.0)
        self.angle = (self.angle + 0.05 * self.speed + math.pi) % (2 * math.pi) - math.pi
        return self.observe(), -(self.angle**2 + 0.1 * self.speed**2)


def network(inputs, outputs, width=64):
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, outputs),
    )


class Actor(nn.Module):
    def __init__(self, inputs=513):
        super().__init__()
        self.body = network(inputs, 2)

    def forward(self, x):
        mean, log_std = self.body(x).chunk(2, -1)
        noise = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
        sample = noise.rsample()
        action = torch.tanh(sample)
        log_prob = noise.log_prob(sample) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_prob.squeeze(-1)


class Agent:
    def __init__(self, alpha=0.1, discount=0.99):
        self.actor = Actor()
        self.critics = nn.ModuleList(network(514, 1) for _ in range(2))
        self.targets = nn.ModuleList(network(514, 1) for _ in range(2))
        self.targets.load_state_dict(self.critics.state_dict())
        self.targets.requires_grad_(False)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), 3e-4)
        self.critic_optimizer = torch.optim.Adam(self.critics.parameters(), 3e-4)
        self.alpha, self.discount = alpha, discount

    def values(self, critics, state, action):
        x = torch.cat([state, action], -1)
        return torch.stack([critic(x).squeeze(-1) for critic in critics])

    def learn(self, state, action, reward, following):
        with torch.no_grad():
            next_action, log_prob = self.actor(following)
            value = self.values(self.targets, following, next_action).amin(0)
            goal = reward + self.discount * (value - self.alpha * log_prob)
        loss = functional.mse_loss(self.values(self.critics, state, action), goal.expand(2, -1))
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()

        new_action, log_prob = self.actor(state)
        value = self.values(self.critics, state, new_action).amin(0)
        self.actor_optimizer.zero_grad()
        (self.alpha * log_prob - value).mean().backward()
        self.actor_optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(
                self.targets.parameters(), self.critics.parameters(), strict=False
            ):
                slow.lerp_(fast, 0.005)
        return loss.item()


def main(episodes=30, length=100, capacity=1000):
    torch.manual_seed(0)
    random.seed(0)
    game, agent = Pendulum(), Agent()
    replay = collections.deque(maxlen=capacity)
    for episode in range(episodes):
        state, total, loss = game.reset(), 0.0, 0.0
        for step in range(length):
            with torch.no_grad():
                action, _ = agent.actor(state[None])
            following, reward = game.step(action.item())
            replay.append((state, action[0], torch.tensor(reward), following))
            state, total = following, total + reward
            if step % 5 == 0 and len(replay) > 128:
                loss = agent.learn(*map(torch.stack, zip(*random.sample(replay, 64), strict=True)))
        if episode % 10 == 9:
            print(f"episode {episode}: return {total:.1f}, loss {loss:.3f}")


if __name__ == "__main__":
    main()

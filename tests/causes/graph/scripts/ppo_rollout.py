"""PPO on pictures; the rollout calls actor and critic without no_grad and detaches later."""

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional


class Encoder(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 16, 5, 2), nn.Conv2d(16, 32, 5, 2)
        self.fc = nn.Linear(32 * 13 * 13, outputs)

    def forward(self, x):
        x = functional.relu(self.conv1(x))
        return self.fc(functional.relu(self.conv2(x)).flatten(1))


class Envs:
    def __init__(self, count):
        self.count = count

    def reset(self):
        return torch.rand(self.count, 3, 64, 64)

    def step(self, action):
        return torch.rand(self.count, 3, 64, 64), (action == 1).float()


def collect(envs, obs, actor, critic, horizon):
    rollout = []
    for _ in range(horizon):
        dist = Categorical(logits=actor(obs))
        action = dist.sample()
        value = critic(obs).squeeze(1)
        after, reward = envs.step(action)
        rollout.append((obs, action, dist.log_prob(action), value, reward))
        obs = after
    return rollout, obs


def advantages(rollout, gamma=0.99):
    running, result = torch.zeros(len(rollout[0][4])), []
    for *_, value, reward in reversed(rollout):
        running = reward + gamma * running
        result.insert(0, running - value.detach())
    return torch.cat(result)


def main(iterations=4, horizon=32, batch=32):
    torch.manual_seed(0)
    envs, actor, critic = Envs(4), Encoder(3), Encoder(1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-4)
    obs = envs.reset()
    for iteration in range(iterations):
        rollout, obs = collect(envs, obs, actor, critic, horizon)
        states, actions = torch.cat([r[0] for r in rollout]), torch.cat([r[1] for r in rollout])
        old = torch.cat([r[2].detach() for r in rollout])
        advantage = advantages(rollout)
        for index in torch.randperm(len(states)).split(batch):
            log_prob = Categorical(logits=actor(states[index])).log_prob(actions[index])
            ratio = (log_prob - old[index]).exp()
            surrogate = torch.min(
                ratio * advantage[index], ratio.clamp(0.8, 1.2) * advantage[index]
            )
            loss = critic(states[index]).pow(2).mean() - surrogate.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(iteration, loss.item())


if __name__ == "__main__":
    main()

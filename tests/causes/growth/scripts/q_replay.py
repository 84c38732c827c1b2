"""Deep Q learning on a toy grid; the buffer stores the value estimates for prioritised sampling."""

import random
from collections import deque, namedtuple

import torch
from torch import nn

Transition = namedtuple("Transition", "state action reward next_state q")


class QNet(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten()
        )
        self.fc = nn.Sequential(nn.Linear(32 * 9 * 9, 256), nn.ReLU(), nn.Linear(256, actions))

    def forward(self, x):
        return self.fc(self.conv(x))


class Buffer:
    def __init__(self, capacity=100_000):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, n):
        return random.sample(self.memory, n)


class GridWorld:
    def reset(self):
        return torch.rand(1, 4, 42, 42)

    def step(self, action):
        return torch.rand(1, 4, 42, 42), random.random()


def main(frames=300, batch=16):
    torch.manual_seed(0)
    random.seed(0)
    net, target = QNet(), QNet()
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-4)
    env, buffer = GridWorld(), Buffer()
    state = env.reset()
    for frame in range(frames):
        q = net(state)
        action = q.argmax(1).item() if random.random() > 0.1 else random.randrange(6)
        next_state, reward = env.step(action)
        buffer.push(state, action, reward, next_state, q[0, action])
        state = next_state
        if frame >= batch and frame % 4 == 0:
            rows = buffer.sample(batch)
            states = torch.cat([r.state for r in rows])
            nexts = torch.cat([r.next_state for r in rows])
            rewards = torch.tensor([r.reward for r in rows])
            actions = torch.tensor([r.action for r in rows])
            with torch.no_grad():
                wanted = rewards + 0.99 * target(nexts).max(1).values
            loss = nn.functional.smooth_l1_loss(
                net(states).gather(1, actions[:, None]).squeeze(1), wanted
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print("buffer", len(buffer.memory))


if __name__ == "__main__":
    main()

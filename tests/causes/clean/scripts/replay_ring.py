"""DQN whose replay memory is one tensor of bytes, allocated before the first step."""

import torch
from torch import nn
from torch.nn import functional


class Ring:
    def __init__(self, capacity, shape):
        self.frames = torch.empty(capacity, *shape, dtype=torch.uint8)
        self.actions = torch.empty(capacity, dtype=torch.long)
        self.rewards = torch.empty(capacity)
        self.place, self.full = 0, False

    def add(self, frame, action, reward):
        self.frames[self.place] = frame
        self.actions[self.place], self.rewards[self.place] = action, reward
        self.place = (self.place + 1) % len(self.frames)
        self.full = self.full or self.place == 0

    def sample(self, count):
        last = len(self.frames) if self.full else self.place
        index = torch.randint(last - 1, (count,))
        read = [self.frames[i].float() / 255 for i in (index, index + 1)]
        return read[0], self.actions[index], self.rewards[index], read[1]


def main(steps=200):
    torch.manual_seed(0)
    q = nn.Sequential(
        nn.Conv2d(2, 16, 8, 4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 100, 64),
        nn.ReLU(),
        nn.Linear(64, 4),
    )
    ring, optimizer = Ring(150, (2, 44, 44)), torch.optim.Adam(q.parameters(), lr=1e-4)
    for step in range(steps):
        frame = torch.randint(256, (2, 44, 44), dtype=torch.uint8)
        with torch.no_grad():
            action = q(frame[None].float() / 255).argmax().item()
        ring.add(frame, action, float(action == 2))
        if step < 32 or step % 2:
            continue
        states, actions, rewards, after = ring.sample(32)
        with torch.no_grad():
            goal = rewards + 0.9 * q(after).amax(1)
        loss = functional.smooth_l1_loss(q(states).gather(1, actions[:, None])[:, 0], goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()

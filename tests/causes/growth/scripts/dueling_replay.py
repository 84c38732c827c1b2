"""A dueling DQN that learns to catch balls from stacked frames."""

import random

import torch
from torch import nn
from torch.nn import functional


class Catch:
    """A ball falls, and the paddle below must be where it lands."""

    def __init__(self, side=42):
        self.side = side
        self.reset()

    def reset(self):
        self.ball, self.paddle = [0, random.randrange(self.side)], self.side // 2
        self.frames = [self.draw()] * 4
        return torch.stack(self.frames)

    def draw(self):
        frame = torch.zeros(self.side, self.side)
        frame[self.ball[0], self.ball[1]] = 1.0
        frame[-1, max(self.paddle - 2, 0) : self.paddle + 3] = 1.0
        return frame

    def step(self, action):
        self.ball[0] += 2
        self.paddle = min(max(self.paddle + 2 * (action - 1), 0), self.side - 1)
        done = self.ball[0] >= self.side - 2
        reward = float(abs(self.ball[1] - self.paddle) < 4) if done else 0.0
        self.frames = [*self.frames[1:], self.draw()]
        return torch.stack(self.frames), reward, done


class Dueling(nn.Module):
    def __init__(self, actions=3):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten()
        )
        self.value = nn.Linear(32 * 9, 1)
        self.advantage = nn.Linear(32 * 9, actions)

    def forward(self, x):
        x = self.body(x)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(1, keepdim=True)


class Replay:
    def __init__(self):
        self.transitions = []

    def push(self, state, action, reward, following, done):
        self.transitions.append((state, action, reward, following, done))

    def sample(self, count):
        chosen = random.sample(self.transitions, count)
        states, actions, rewards, following, done = zip(*chosen, strict=False)
        return (
            torch.stack(states),
            torch.tensor(actions),
            torch.tensor(rewards),
            torch.stack(following),
            torch.tensor(done, dtype=torch.float),
        )


def learn(online, target, optimizer, replay, discount=0.99):
    states, actions, rewards, following, done = replay.sample(32)
    values = online(states).gather(1, actions[:, None]).squeeze(1)
    with torch.no_grad():
        best = online(following).argmax(1, keepdim=True)
        future = target(following).gather(1, best).squeeze(1)
    loss = functional.smooth_l1_loss(values, rewards + discount * (1 - done) * future)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main(episodes=120):
    torch.manual_seed(0)
    random.seed(0)
    game, replay = Catch(), Replay()
    online, target = Dueling(), Dueling()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
    for episode in range(episodes):
        state, done, score = game.reset(), False, 0.0
        while not done:
            explore = random.random() < max(0.1, 1 - episode / 60)
            with torch.no_grad():
                action = random.randrange(3) if explore else online(state[None]).argmax().item()
            following, reward, done = game.step(action)
            replay.push(state, action, reward, following, done)
            state, score = following, score + reward
        loss = learn(online, target, optimizer, replay) if episode > 4 else 0.0
        if episode % 20 == 19:
            target.load_state_dict(online.state_dict())
            print(f"episode {episode}: score {score}, loss {loss:.4f}")


if __name__ == "__main__":
    main()

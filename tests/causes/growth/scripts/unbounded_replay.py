"""DQN on stacked frames; the replay memory is a plain list and never drops a transition."""

import random

import torch
from torch import nn
from torch.nn import functional


def make_network(actions=4):
    return nn.Sequential(
        nn.Conv2d(4, 16, 8, 4),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 81, 128),
        nn.ReLU(),
        nn.Linear(128, actions),
    )


class Game:
    """Pretends to be an emulator with 84 x 84 pictures."""

    def frames(self):
        return torch.rand(4, 84, 84)

    def play(self, action):
        return self.frames(), float(action == 0)


transitions = []
torch.manual_seed(0)
random.seed(0)
game, online, target = Game(), make_network(), make_network()
target.load_state_dict(online.state_dict())
optimizer = torch.optim.RMSprop(online.parameters(), lr=1e-4)
state = game.frames()
for frame in range(480):
    with torch.no_grad():
        greedy = online(state[None]).argmax().item()
    action = random.randrange(4) if random.random() < 0.1 else greedy
    following, reward = game.play(action)
    transitions.append((state, action, reward, following))
    state = following
    if frame % 6 or len(transitions) < 16:
        continue
    batch = random.sample(transitions, 16)
    states, after = torch.stack([t[0] for t in batch]), torch.stack([t[3] for t in batch])
    actions = torch.tensor([t[1] for t in batch])
    with torch.no_grad():
        goal = torch.tensor([t[2] for t in batch]) + 0.99 * target(after).amax(1)
    q = online(states).gather(1, actions[:, None]).squeeze(1)
    loss = functional.smooth_l1_loss(q, goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if frame % 60 == 0:
        target.load_state_dict(online.state_dict())
        print(frame, loss.item(), len(transitions))

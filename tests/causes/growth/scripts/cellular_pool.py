"""A neural cellular automaton that grows a pattern; training continues from a pool of states."""

import torch
from torch import nn
from torch.nn import functional


class Automaton(nn.Module):
    def __init__(self, channels=16, hidden=64):
        super().__init__()
        self.channels = channels
        identity = torch.tensor([[0.0, 0, 0], [0, 1, 0], [0, 0, 0]])
        sobel = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8
        kernels = torch.stack([identity, sobel, sobel.T]).repeat(channels, 1, 1)
        self.register_buffer("kernels", kernels[:, None])
        self.update = nn.Sequential(
            nn.Conv2d(3 * channels, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, channels, 1)
        )
        nn.init.zeros_(self.update[2].weight)

    def perceive(self, x):
        return functional.conv2d(x, self.kernels, padding=1, groups=self.channels)

    def forward(self, x, steps):
        for _ in range(steps):
            fire = torch.rand_like(x[:, :1]) < 0.5
            x = x + self.update(self.perceive(x)) * fire
        return x


class SamplePool:
    def __init__(self, size, channels=16, side=40):
        seed = torch.zeros(channels, side, side)
        seed[3:, side // 2, side // 2] = 1.0
        self.seed = seed
        self.states = [seed.clone() for _ in range(size)]

    def draw(self, count):
        indices = torch.randperm(len(self.states))[:count].tolist()
        batch = torch.stack([self.states[i].detach() for i in indices])
        return indices, torch.cat([self.seed[None], batch[1:]])

    def put(self, indices, batch):
        for i, state in zip(indices, batch, strict=False):
            self.states[i] = state


def target_pattern(side=40):
    axis = torch.linspace(-1, 1, side)
    radius = (axis[:, None] ** 2 + axis[None] ** 2).sqrt()
    alpha = (radius < 0.6).float()
    return torch.stack([alpha * (1 - radius), alpha * radius, alpha * 0.3, alpha])


def evaluate(model, pool, target):
    with torch.no_grad():
        grown = model(pool.seed[None], 32)
    return functional.mse_loss(grown[:, :4], target[None]).item()


def main(iterations=20, batch=4):
    torch.manual_seed(0)
    model, pool, target = Automaton(), SamplePool(256), target_pattern()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [15])
    for iteration in range(iterations):
        indices, states = pool.draw(batch)
        states = model(states, 4)
        loss = functional.mse_loss(states[:, :4], target.expand(batch, -1, -1, -1))
        overflow = (states - states.clamp(-2, 2)).abs().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        overflow.backward(retain_graph=True)
        for parameter in model.parameters():
            parameter.grad /= parameter.grad.norm() + 1e-8
        optimizer.step()
        schedule.step()
        pool.put(indices, states)
        if iteration % 5 == 4:
            print(f"{iteration}: loss {loss.item():.4f}, grown {evaluate(model, pool, target):.4f}")


if __name__ == "__main__":
    main()

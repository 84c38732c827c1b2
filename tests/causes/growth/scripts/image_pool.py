"""CycleGAN-like translation; the image pool for the critic only ever adds pictures."""

import random

import torch
from torch import nn
from torch.nn import functional


class Generator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3),
            nn.InstanceNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )

    def forward(self, x):
        return torch.tanh(self.net(x))


class Critic(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 4, 4), nn.LeakyReLU(0.2), nn.Conv2d(width, 1, 4, 4)
        )

    def forward(self, x):
        return self.net(x)


class ImagePool:
    def __init__(self):
        self.images = []

    def query(self, images):
        self.images.append(images)
        return random.choice(self.images)


def main(steps=40):
    torch.manual_seed(0)
    random.seed(0)
    there, back, critic, pool = Generator(), Generator(), Critic(), ImagePool()
    g_optimizer = torch.optim.Adam([*there.parameters(), *back.parameters()], lr=2e-4)
    c_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4)
    for step in range(steps):
        horses, zebras = torch.rand(4, 3, 128, 128), torch.rand(4, 3, 128, 128)
        fake = there(horses)
        scores = critic(fake)
        g_loss = functional.mse_loss(scores, torch.ones_like(scores))
        g_loss = g_loss + 10 * functional.l1_loss(back(fake), horses)
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()

        old = critic(pool.query(fake.detach()))
        real = critic(zebras)
        c_loss = old.pow(2).mean() + (real - 1).pow(2).mean()
        c_optimizer.zero_grad()
        c_loss.backward()
        c_optimizer.step()
        if step % 10 == 0:
            print(step, g_loss.item(), c_loss.item())


if __name__ == "__main__":
    main()

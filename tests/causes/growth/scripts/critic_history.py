"""WGAN on 32x32 pictures; the Wasserstein estimate of each step is kept for the plot at the end."""

import torch
from torch import nn


def block(i, o):
    return nn.Sequential(nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o), nn.ReLU())


class Generator(nn.Module):
    def __init__(self, z=64, width=32):
        super().__init__()
        self.fc = nn.Linear(z, width * 4 * 16)
        self.up = nn.Sequential(block(width * 4, width * 2), block(width * 2, width))
        self.out = nn.ConvTranspose2d(width, 3, 4, 2, 1)

    def forward(self, z):
        return torch.tanh(self.out(self.up(self.fc(z).view(len(z), -1, 4, 4))))


class Critic(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, width * 2, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(width * 2 * 64, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def main(steps=20, batch=24):
    torch.manual_seed(0)
    generator, critic = Generator(), Critic()
    g_optimizer = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
    c_optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
    wasserstein = []
    for step in range(steps):
        for _ in range(2):
            real = torch.rand(batch, 3, 32, 32) * 2 - 1
            fake = generator(torch.randn(batch, 64)).detach()
            c_loss = critic(fake).mean() - critic(real).mean()
            c_optimizer.zero_grad()
            c_loss.backward()
            c_optimizer.step()
            with torch.no_grad():
                for p in critic.parameters():
                    p.clamp_(-0.01, 0.01)
        g_loss = -critic(generator(torch.randn(batch, 64))).mean()
        g_optimizer.zero_grad()
        g_loss.backward()
        g_optimizer.step()
        estimate = critic(real[:8]).mean() - critic(fake[:8]).mean()
        wasserstein.append((step, estimate, g_loss.item()))
    print("last", [round(float(w[1]), 4) for w in wasserstein[-3:]])


if __name__ == "__main__":
    main()

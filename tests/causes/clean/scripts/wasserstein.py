"""WGAN-GP: five critic steps with a double backward for each step of the generator."""

import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.fc, self.width = nn.Linear(32, width * 64), width
        self.net = nn.Sequential(
            nn.ReLU(),
            nn.ConvTranspose2d(width, 16, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 4, 2, 1),
        )

    def forward(self, z):
        return torch.tanh(self.net(self.fc(z).view(len(z), self.width, 8, 8)))


def make_critic(width=24):
    return nn.Sequential(
        nn.Conv2d(1, width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(2 * width * 64, 1),
    )


def penalty(critic, real, fake):
    mix = torch.rand(len(real), 1, 1, 1)
    x = (mix * real + (1 - mix) * fake).requires_grad_()
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    return (gradient.flatten(1).norm(dim=1) - 1).pow(2).mean()


def main(steps=10):
    torch.manual_seed(0)
    generator, critic = Generator(), make_critic()
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
    c_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    for step in range(steps):
        for _ in range(5):
            real = torch.rand(16, 1, 32, 32)
            with torch.no_grad():
                fake = generator(torch.randn(16, 32))
            c_loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(critic, real, fake)
            c_optimizer.zero_grad(set_to_none=True)
            c_loss.backward()
            c_optimizer.step()
        g_loss = -critic(generator(torch.randn(16, 32))).mean()
        g_optimizer.zero_grad(set_to_none=True)
        g_loss.backward()
        g_optimizer.step()
        if step % 4 == 0:
            print(step, c_loss.item(), g_loss.item())


if __name__ == "__main__":
    main()

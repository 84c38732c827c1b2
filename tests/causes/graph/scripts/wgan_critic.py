"""The critic step of a WGAN without detach: gradients of the generator, which nothing reads."""

import argparse

import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self, nz=64, ngf=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 4, 4, 1, 0),
            nn.BatchNorm2d(ngf * 4),
            nn.ReLU(),
            nn.ConvTranspose2d(ngf * 4, ngf * 2, 4, 2, 1),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1),
            nn.BatchNorm2d(ngf),
            nn.ReLU(),
            nn.ConvTranspose2d(ngf, ngf, 4, 2, 1),
            nn.BatchNorm2d(ngf),
            nn.ReLU(),
            nn.Conv2d(ngf, 3, 3, 1, 1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, ndf=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, ndf, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(ndf * 2, 1, 8, 1, 0),
        )

    def forward(self, x):
        return self.net(x).flatten()


class WGANTrainer:
    def __init__(self, generator, critic, opt):
        self.generator, self.critic, self.opt = generator, critic, opt
        self.generator_optim = torch.optim.RMSprop(generator.parameters(), lr=5e-5)
        self.critic_optim = torch.optim.RMSprop(critic.parameters(), lr=5e-5)

    def critic_step(self, real):
        self.critic_optim.zero_grad()
        noise = torch.randn(real.size(0), self.opt.nz, 1, 1)
        fake = self.generator(noise)
        critic_loss = self.critic(fake).mean() - self.critic(real).mean()
        critic_loss.backward()
        self.critic_optim.step()
        for p in self.critic.parameters():
            p.data.clamp_(-0.01, 0.01)
        return critic_loss.item()

    def generator_step(self, n):
        self.generator_optim.zero_grad()
        fake = self.generator(torch.randn(n, self.opt.nz, 1, 1))
        generator_loss = -self.critic(fake).mean()
        generator_loss.backward()
        self.generator_optim.step()
        return generator_loss.item()


p = argparse.ArgumentParser()
p.add_argument("--nz", type=int, default=64)
p.add_argument("--batch_size", type=int, default=128)
p.add_argument("--gen_batch", type=int, default=32, help="small batch for the generator")
p.add_argument("--n_critic", type=int, default=3)
p.add_argument("--niter", type=int, default=4)
opt = p.parse_args()

t = WGANTrainer(Generator(opt.nz), Critic(), opt)
for it in range(opt.niter):
    for _ in range(opt.n_critic):
        critic_loss = t.critic_step(torch.rand(opt.batch_size, 3, 32, 32) * 2 - 1)
    generator_loss = t.generator_step(opt.gen_batch)
    print(f"[{it}/{opt.niter}] Loss_D {critic_loss:.4f} Loss_G {generator_loss:.4f}")

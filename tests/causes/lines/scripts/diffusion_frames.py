"""A DDPM on 32x32 pictures; sampling returns every timestep for an animation."""

import torch
from torch import nn
from torch.nn import functional


class Denoiser(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.time = nn.Embedding(64, width)
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.middle = nn.Sequential(nn.SiLU(), nn.Conv2d(width, width, 3, padding=1), nn.SiLU())
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        h = self.enter(x) + self.time(t)[:, :, None, None]
        return self.leave(self.middle(h))


class Diffusion:
    def __init__(self, steps=64):
        self.steps = steps
        self.beta = torch.linspace(1e-4, 0.05, steps)
        self.alpha = 1 - self.beta
        self.total = torch.cumprod(self.alpha, 0)

    def loss(self, model, x):
        t = torch.randint(self.steps, (len(x),))
        noise = torch.randn_like(x)
        a = self.total[t][:, None, None, None]
        return functional.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)

    @torch.no_grad()
    def sample(self, model, count):
        x = torch.randn(count, 3, 32, 32)
        frames = []
        for t in reversed(range(self.steps)):
            noise = model(x, torch.full((count,), t))
            x = (x - self.beta[t] / (1 - self.total[t]).sqrt() * noise) / self.alpha[t].sqrt()
            if t:
                x = x + self.beta[t].sqrt() * torch.randn_like(x)
            frames.append(x.clamp(-1, 1))
        return torch.stack(frames)


def main(epochs=2, steps=8):
    torch.manual_seed(0)
    model, diffusion = Denoiser(), Diffusion()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for _ in range(steps):
            loss = diffusion.loss(model, torch.rand(32, 3, 32, 32) * 2 - 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        film = diffusion.sample(model, 48)
        print(epoch, loss.item(), tuple(film.shape))


if __name__ == "__main__":
    main()

"""An importance-weighted autoencoder with 64 samples for each picture."""

import math

import torch
from torch import nn
from torch.nn import functional


class Decoder(nn.Module):
    def __init__(self, latent=16, width=256, pixels=784):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(latent, width), nn.Linear(width, width)
        self.out = nn.Linear(width, pixels)

    def forward(self, z):
        return self.out(torch.tanh(self.fc2(torch.tanh(self.fc1(z)))))


class IWAE(nn.Module):
    def __init__(self, latent=16, samples=64):
        super().__init__()
        self.samples = samples
        self.encoder = nn.Sequential(nn.Linear(784, 256), nn.Tanh(), nn.Linear(256, 2 * latent))
        self.decoder = Decoder(latent)

    def forward(self, x):
        mean, log_std = self.encoder(x).chunk(2, -1)
        noise = torch.randn(self.samples, *mean.shape)
        z = mean + log_std.exp() * noise
        logits = self.decoder(z)
        target = x.expand(self.samples, *x.shape)
        likelihood = -functional.binary_cross_entropy_with_logits(
            logits, target, reduction="none"
        ).sum(-1)
        prior = -0.5 * z.pow(2).sum(-1)
        posterior = -0.5 * noise.pow(2).sum(-1) - log_std.sum(-1)
        bound = torch.logsumexp(likelihood + prior - posterior, 0) - math.log(self.samples)
        return -bound.mean()


def main(steps=6, batch=24):
    torch.manual_seed(0)
    model = IWAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        x = (torch.rand(batch, 784) > 0.7).float()
        loss = model(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

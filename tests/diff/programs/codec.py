"""A variational autoencoder of small images, made of two sequences of layers."""

import torch
import torch.nn.functional as F
from torch import nn

SIDE, BATCH, WIDTH, LATENT = 32, 16, 16, 32
FLAT = 2 * WIDTH * (SIDE // 4) ** 2


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(FLAT, 2 * LATENT),
        )
        self.decoder = nn.Sequential(
            nn.Linear(LATENT, FLAT),
            nn.ReLU(),
            nn.Unflatten(1, (2 * WIDTH, SIDE // 4, SIDE // 4)),
            nn.ConvTranspose2d(2 * WIDTH, WIDTH, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(WIDTH, 1, 4, stride=2, padding=1),
        )

    def forward(self, images):
        mean, log_variance = self.encoder(images).chunk(2, dim=1)
        latent = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(latent), mean, log_variance


def loss_of(restored, images, mean, log_variance):
    error = F.mse_loss(restored, images)
    divergence = (mean.square() + log_variance.exp() - log_variance - 1).mean()
    return error + 0.01 * divergence


def images(count):
    for _ in range(count):
        yield torch.rand(BATCH, 1, SIDE, SIDE)


def train(steps=10):
    torch.manual_seed(0)
    model = Codec()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    curve = []
    for batch in images(steps):
        restored, mean, log_variance = model(batch)
        loss = loss_of(restored, batch, mean, log_variance)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return curve


train()

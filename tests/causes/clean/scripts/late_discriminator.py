"""A VQ-like autoencoder; the discriminator and its optimizer are created after two thirds."""

import torch
from torch import nn
from torch.nn import functional


def make_autoencoder(width=32):
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Sigmoid()
    )


def make_discriminator(width=64):
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(width * 256, 256),
        nn.LeakyReLU(0.2),
        nn.Linear(256, 1),
    )


def main(steps=24):
    torch.manual_seed(0)
    model, critic = make_autoencoder(), None
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        if step == 16:
            critic = make_discriminator()
            critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4)
        x = torch.rand(8, 3, 32, 32)
        y = model(x)
        loss = functional.mse_loss(y, x)
        if critic is not None:
            loss = loss - 0.01 * critic(y).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if critic is not None:
            c_loss = (
                functional.softplus(critic(y.detach())).mean()
                + functional.softplus(-critic(x)).mean()
            )
            critic_optimizer.zero_grad()
            c_loss.backward()
            critic_optimizer.step()
    print(loss.item(), c_loss.item())


if __name__ == "__main__":
    main()

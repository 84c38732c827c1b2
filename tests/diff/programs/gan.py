"""A convolutional GAN: a generator and a discriminator, each with its own Adam."""

import torch
from torch import nn

SIDE, NOISE, BATCH = 32, 64, 16
G_FEATURES, D_FEATURES = 16, 16


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(NOISE, 4 * G_FEATURES, 4, 1, 0, bias=False),
            nn.BatchNorm2d(4 * G_FEATURES),
            nn.ReLU(True),
            nn.ConvTranspose2d(4 * G_FEATURES, 2 * G_FEATURES, 4, 2, 1, bias=False),
            nn.BatchNorm2d(2 * G_FEATURES),
            nn.ReLU(True),
            nn.ConvTranspose2d(2 * G_FEATURES, G_FEATURES, 4, 2, 1, bias=False),
            nn.BatchNorm2d(G_FEATURES),
            nn.ReLU(True),
            nn.ConvTranspose2d(G_FEATURES, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, D_FEATURES, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(D_FEATURES, 2 * D_FEATURES, 4, 2, 1, bias=False),
            nn.BatchNorm2d(2 * D_FEATURES),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(2 * D_FEATURES, 4 * D_FEATURES, 4, 2, 1, bias=False),
            nn.BatchNorm2d(4 * D_FEATURES),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(4 * D_FEATURES, 1, 4, 1, 0, bias=False),
        )

    def forward(self, images):
        return self.main(images).flatten()


def main(steps=6):
    torch.manual_seed(0)
    generator = Generator()
    discriminator = Discriminator()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    fixed_noise = torch.randn(BATCH, NOISE, 1, 1)
    samples = []
    for step in range(steps):
        real = torch.rand(BATCH, 3, SIDE, SIDE) * 2 - 1
        ones = torch.ones(len(real))
        zeros = torch.zeros(len(real))

        optimizer_d.zero_grad()
        loss_real = criterion(discriminator(real), ones)
        loss_real.backward()
        fake = generator(torch.randn(len(real), NOISE, 1, 1))
        loss_fake = criterion(discriminator(fake.detach()), zeros)
        loss_fake.backward()
        optimizer_d.step()

        optimizer_g.zero_grad()
        loss_g = criterion(discriminator(fake), ones)
        loss_g.backward()
        optimizer_g.step()

        if step % 2 == 0:
            with torch.no_grad():
                samples.append(generator(fixed_noise).mean().item())
        print(step, loss_real.item() + loss_fake.item(), loss_g.item())


if __name__ == "__main__":
    main()

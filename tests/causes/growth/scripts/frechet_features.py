"""A DCGAN whose samples are judged by the Frechet distance of features, every few steps."""

import torch
from torch import nn
from torch.nn import functional


class Generator(nn.Sequential):
    def __init__(self, latent=64, width=16):
        super().__init__(
            nn.ConvTranspose2d(latent, 4 * width, 4),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
            nn.Tanh(),
        )


def discriminator(width=16):
    norm = nn.utils.parametrizations.spectral_norm
    return nn.Sequential(
        norm(nn.Conv2d(3, width, 4, 2, 1)),
        nn.LeakyReLU(0.1),
        norm(nn.Conv2d(width, 2 * width, 4, 2, 1)),
        nn.LeakyReLU(0.1),
        norm(nn.Conv2d(2 * width, 1, 8)),
        nn.Flatten(),
    )


class FeatureNet(nn.Module):
    """A fixed random network in place of Inception."""

    def __init__(self, dimensions=512):
        super().__init__()
        self.conv = nn.Conv2d(3, 32, 8, 8)
        self.project = nn.Linear(512, dimensions)
        self.requires_grad_(False)

    def forward(self, x):
        return torch.tanh(self.project(functional.relu(self.conv(x)).flatten(1)))


class FrechetDistance(nn.Module):
    """Compares means and variances of the features of real and generated pictures."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.real, self.fake = None, None

    @torch.no_grad()
    def update(self, pictures, real):
        features = self.network(pictures)
        name = "real" if real else "fake"
        before = getattr(self, name)
        setattr(self, name, features if before is None else torch.cat([before, features]))

    def compute(self):
        mean = (self.real.mean(0) - self.fake.mean(0)).pow(2).sum()
        spread = (self.real.std(0) - self.fake.std(0)).pow(2).sum()
        return (mean + spread).item()


def train_step(generator, critic, optimizers, real):
    fake = generator(torch.randn(len(real), 64, 1, 1))
    loss_critic = functional.relu(1 - critic(real)).mean()
    loss_critic = loss_critic + functional.relu(1 + critic(fake.detach())).mean()
    optimizers[1].zero_grad()
    loss_critic.backward()
    optimizers[1].step()
    loss = -critic(fake).mean()
    optimizers[0].zero_grad()
    loss.backward()
    optimizers[0].step()
    return loss.item(), loss_critic.item()


def evaluate(distance, generator, batches=8, size=32):
    for _ in range(batches):
        distance.update(2 * torch.rand(size, 3, 32, 32) - 1, real=True)
        with torch.no_grad():
            fake = generator(torch.randn(size, 64, 1, 1))
        distance.update(fake, real=False)
    return distance.compute()


def main(steps=60, every=4):
    torch.manual_seed(0)
    generator, critic = Generator(), discriminator()
    optimizers = [torch.optim.Adam(m.parameters(), 2e-4, (0.0, 0.9)) for m in (generator, critic)]
    distance = FrechetDistance(FeatureNet())
    for step in range(steps):
        real = 2 * torch.rand(16, 3, 32, 32) - 1
        losses = train_step(generator, critic, optimizers, real)
        if step % every == every - 1:
            score = evaluate(distance, generator)
            print(f"step {step}: losses {losses[0]:.3f} {losses[1]:.3f}, distance {score:.3f}")


if __name__ == "__main__":
    main()

"""Picture translation with a conditional GAN; pictures for the log are drawn after training."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Edges(Dataset):
    """Pairs of an edge map and the picture that it was taken from."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        picture = torch.rand(3, 96, 96, generator=torch.Generator().manual_seed(index))
        edges = (picture - picture.roll(1, -1)).abs().mean(0, keepdim=True)
        return edges, 2 * picture - 1


class Generator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.down1 = nn.Conv2d(1, width, 4, 2, 1)
        self.down2 = nn.Conv2d(width, 2 * width, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(2 * width, width, 4, 2, 1)
        self.up1 = nn.ConvTranspose2d(2 * width, 3, 4, 2, 1)

    def forward(self, x):
        first = functional.leaky_relu(self.down1(x), 0.2)
        second = functional.leaky_relu(self.down2(first), 0.2)
        up = functional.relu(self.up2(second))
        return torch.tanh(self.up1(torch.cat([up, first], 1)))


class PatchCritic(nn.Sequential):
    def __init__(self, width=24):
        super().__init__(
            nn.Conv2d(4, width, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, 2, 1),
            nn.InstanceNorm2d(2 * width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 1, 4, 1, 1),
        )


class DeferredLog:
    """Drawing is slow: entries are functions that `flush` calls when training has ended."""

    def __init__(self):
        self.entries = []

    def defer(self, function):
        self.entries.append(function)

    def flush(self):
        return [entry() for entry in self.entries]


def grid(*pictures):
    return torch.cat([each[:4].expand(-1, 3, -1, -1) for each in pictures], 3)


def adversarial(scores, real):
    target = torch.ones_like(scores) if real else torch.zeros_like(scores)
    return functional.binary_cross_entropy_with_logits(scores, target)


def train_step(edges, picture, nets, optimizers, log):
    generator, critic = nets
    fake = generator(edges)
    real_loss = adversarial(critic(torch.cat([edges, picture], 1)), True)
    fake_loss = adversarial(critic(torch.cat([edges, fake.detach()], 1)), False)
    optimizers[1].zero_grad()
    (0.5 * (real_loss + fake_loss)).backward()
    optimizers[1].step()

    loss = adversarial(critic(torch.cat([edges, fake], 1)), True)
    loss = loss + 100 * functional.l1_loss(fake, picture)
    optimizers[0].zero_grad()
    loss.backward()
    optimizers[0].step()
    log.defer(lambda: grid(edges, fake, picture).mean().item())
    return loss.item()


def main(epochs=6):
    torch.manual_seed(0)
    loader = DataLoader(Edges(), batch_size=8, shuffle=True)
    nets = Generator(), PatchCritic()
    optimizers = [torch.optim.Adam(net.parameters(), 2e-4, betas=(0.5, 0.999)) for net in nets]
    log = DeferredLog()
    for epoch in range(epochs):
        losses = [train_step(x, y, nets, optimizers, log) for x, y in loader]
        print(f"epoch {epoch}: {sum(losses) / len(losses):.3f}")
    print("pictures drawn:", len(log.flush()))


if __name__ == "__main__":
    main()

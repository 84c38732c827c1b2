"""Dense contrastive learning; the bank of pixel features grows with torch.cat at every step."""

import torch
from torch import nn
from torch.nn import functional


class PixelEncoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, dim, 3, 2, 1))

    def forward(self, x):
        return functional.normalize(self.net(x).flatten(2).transpose(1, 2).flatten(0, 1), dim=1)


class Bank:
    def __init__(self, dim=64):
        self.features = torch.empty(0, dim)

    def add(self, z):
        self.features = torch.cat([self.features, z.detach()])


def info_nce(z, positive, negatives, temperature=0.1):
    chosen = torch.randperm(len(z))[:32]
    near = (z[chosen] * positive[chosen]).sum(1, keepdim=True)
    far = z[chosen] @ negatives[torch.randint(len(negatives), (256,))].T
    logits = torch.cat([near, far], 1) / temperature
    return functional.cross_entropy(logits, torch.zeros(len(chosen), dtype=torch.long))


def main(steps=48):
    torch.manual_seed(0)
    encoder, bank = PixelEncoder(), Bank()
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.03, momentum=0.9)
    for step in range(steps):
        x = torch.rand(12, 3, 48, 48)
        z = encoder(x)
        with torch.no_grad():
            positive = encoder(x + 0.05 * torch.randn_like(x))
        bank.add(positive)
        loss = info_nce(z, positive, bank.features)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 12 == 0:
            print(step, loss.item(), len(bank.features))


if __name__ == "__main__":
    main()

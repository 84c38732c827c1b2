"""Momentum contrast: a query encoder, a slowly moving key encoder and a queue of earlier keys."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + x)


class Encoder(nn.Module):
    def __init__(self, dim=64, width=24):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.block1 = ResidualBlock(width)
        self.block2 = ResidualBlock(width)
        self.projector = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, dim))

    def forward(self, x):
        x = self.block2(self.block1(F.relu(self.stem(x))))
        x = x.mean(dim=(2, 3))
        return F.normalize(self.projector(x), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=64, queue_size=1024, momentum=0.99, temperature=0.2):
        super().__init__()
        self.momentum = momentum
        self.temperature = temperature
        self.encoder_q = Encoder(dim)
        self.encoder_k = copy.deepcopy(self.encoder_q)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, queue_size), dim=0))
        self.pointer = 0

    @torch.no_grad()
    def update_key_encoder(self):
        for q, k in zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=True):
            k.data.mul_(self.momentum).add_(q.data, alpha=1 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        batch = keys.shape[0]
        self.queue[:, self.pointer : self.pointer + batch] = keys.T
        self.pointer = (self.pointer + batch) % self.queue.shape[1]

    def forward(self, im_q, im_k):
        q = self.encoder_q(im_q)
        with torch.no_grad():
            self.update_key_encoder()
            k = self.encoder_k(im_k)
        l_pos = (q * k).sum(dim=1, keepdim=True)
        l_neg = q @ self.queue.clone().detach()
        logits = torch.cat([l_pos, l_neg], dim=1) / self.temperature
        labels = torch.zeros(len(q), dtype=torch.long)
        self.enqueue(k)
        return logits, labels


def augment(images):
    flipped = torch.where(torch.rand(len(images), 1, 1, 1) < 0.5, images.flip(-1), images)
    return flipped + 0.1 * torch.randn_like(images)


def loader(num_batches, batch_size=32, size=32):
    for _ in range(num_batches):
        yield torch.rand(batch_size, 3, size, size)


def main():
    torch.manual_seed(0)
    model = MoCo()
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.03, momentum=0.9)
    losses = []
    for images in loader(6):
        logits, labels = model(augment(images), augment(images))
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(sum(losses) / len(losses))


if __name__ == "__main__":
    main()

"""A transcriber of speech: convolutions, a GRU, and a loss in chunks over many classes."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

BATCH, FRAMES, BANDS, WIDTH, SOUNDS, CHUNK = 8, 96, 40, 64, 600, 64


class Front(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(BANDS, WIDTH, 5, padding=2)
        self.conv2 = nn.Conv1d(WIDTH, WIDTH, 5, padding=2)

    def forward(self, x):
        x = F.gelu(self.conv1(x))
        return F.gelu(self.conv2(x)).transpose(1, 2)


class Transcriber(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = Front()
        self.memory = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, SOUNDS)

    def forward(self, sound):
        hidden, _ = self.memory(self.front(sound))
        return self.norm(hidden)


def loss_of_chunk(head, hidden, wanted):
    return F.cross_entropy(head(hidden), wanted, reduction="sum")


def loss_of(head, hidden, wanted):
    total = 0.0
    for part, sounds in zip(hidden.split(CHUNK), wanted.split(CHUNK), strict=True):
        total = total + checkpoint(loss_of_chunk, head, part, sounds, use_reentrant=False)
    return total / len(wanted)


def recordings(count):
    for _ in range(count):
        yield torch.rand(BATCH, BANDS, FRAMES), torch.randint(SOUNDS, (BATCH, FRAMES))


def train(steps=10):
    torch.manual_seed(0)
    model = Transcriber()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for sound, wanted in recordings(steps):
        hidden = model(sound)
        loss = loss_of(model.head, hidden.flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


train()

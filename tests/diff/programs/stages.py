"""A convolutional network of equal stages, and a classifier after them."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIDE, CHANNELS, CLASSES, STAGES = 8, 24, 16, 12, 3


class Stage(nn.Module):
    def __init__(self, channels, inner):
        super().__init__()
        self.reduce = nn.Conv2d(channels, inner, 3, padding=1)
        self.norm = nn.BatchNorm2d(inner)
        self.expand = nn.Conv2d(inner, channels, 3, padding=1)

    def forward(self, x):
        return x + self.expand(F.relu(self.norm(self.reduce(x))))


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.stages = nn.ModuleList()
        for _ in range(STAGES):
            self.stages.append(Stage(CHANNELS, CHANNELS))
        self.pool = nn.MaxPool2d(2)
        self.classifier = nn.Linear(CHANNELS * (SIDE // 2) ** 2, CLASSES)

    def forward(self, images):
        x = self.stem(images)
        for stage in self.stages:
            x = stage(x)
        return self.classifier(self.pool(x).flatten(1))


def train(steps=8):
    torch.manual_seed(0)
    model = Recognizer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        images = torch.rand(BATCH, 3, SIDE, SIDE)
        loss = F.cross_entropy(model(images), torch.randint(CLASSES, (BATCH,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()

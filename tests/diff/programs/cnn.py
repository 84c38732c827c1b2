"""An image classifier of convolutions with AdamW."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIDE, CLASSES, WIDTH = 16, 32, 10, 32


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(WIDTH, 2 * WIDTH, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.hidden = nn.Linear(2 * WIDTH * (SIDE // 4) ** 2, 128)
        self.out = nn.Linear(128, CLASSES)

    def forward(self, images):
        x = self.features(images)
        x = F.relu(self.hidden(x.flatten(1)))
        return self.out(x)


def batches(count):
    for _ in range(count):
        yield torch.rand(BATCH, 3, SIDE, SIDE), torch.randint(CLASSES, (BATCH,))


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean().item()
    model.train()
    return right


def train(steps=8):
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    held_out = torch.rand(8, 3, SIDE, SIDE)
    labels = torch.randint(CLASSES, (8,))
    scores = []
    for images, classes in batches(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), classes)
        loss.backward()
        optimizer.step()
        scores.append(accuracy(model, held_out, labels))
    return scores


train()

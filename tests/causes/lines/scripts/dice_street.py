"""Segmentation of street scenes with a Dice loss, 19 classes and a light decoder."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

CLASSES = 19


class Streets(Dataset):
    def __init__(self, count, size=128):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        coarse = torch.randint(CLASSES, (1, 1, 8, 8), generator=generator).float()
        labels = functional.interpolate(coarse, size=self.size).long()[0, 0]
        picture = labels / CLASSES + 0.1 * torch.rand(3, *labels.shape, generator=generator)
        return picture, labels


class Bottleneck(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=dilation, dilation=dilation)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return functional.relu(x + self.norm(self.conv(x)))


class LightSegmenter(nn.Module):
    """Works at an eighth of the resolution; the head is a plain interpolation of scores."""

    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, 4, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, width, 3, 2, 1)
        )
        self.blocks = nn.Sequential(*(Bottleneck(width, d) for d in (1, 2, 4)))
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        scores = self.head(self.blocks(self.stem(x)))
        return functional.interpolate(scores, size=x.shape[-2:], mode="bilinear")


def dice_loss(scores, labels, smooth=1.0):
    probabilities = scores.softmax(1)
    truth = functional.one_hot(labels, CLASSES).permute(0, 3, 1, 2)
    overlap = (probabilities * truth).sum((0, 2, 3))
    total = probabilities.sum((0, 2, 3)) + truth.sum((0, 2, 3))
    return 1 - ((2 * overlap + smooth) / (total + smooth)).mean()


class ConfusionMatrix:
    def __init__(self):
        self.counts = torch.zeros(CLASSES, CLASSES, dtype=torch.long)

    def update(self, predicted, labels):
        index = labels.flatten() * CLASSES + predicted.flatten()
        self.counts += torch.bincount(index, minlength=CLASSES**2).view(CLASSES, CLASSES)

    def mean_iou(self):
        hits = self.counts.diagonal()
        union = self.counts.sum(0) + self.counts.sum(1) - hits
        return (hits / union.clamp(min=1)).mean().item()


def validate(model, loader):
    matrix = ConfusionMatrix()
    model.eval()
    with torch.no_grad():
        for pictures, labels in loader:
            matrix.update(model(pictures).argmax(1), labels)
    model.train()
    return matrix.mean_iou()


def main(epochs=3):
    torch.manual_seed(0)
    train = DataLoader(Streets(64), batch_size=16, shuffle=True)
    valid = DataLoader(Streets(8), batch_size=4)
    model = LightSegmenter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    poly = torch.optim.lr_scheduler.PolynomialLR(optimizer, epochs * len(train), 0.9)
    for epoch in range(epochs):
        for pictures, labels in train:
            loss = dice_loss(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            poly.step()
        print(f"epoch {epoch}: Dice loss {loss.item():.3f}, IoU {validate(model, valid):.3f}")


if __name__ == "__main__":
    main()

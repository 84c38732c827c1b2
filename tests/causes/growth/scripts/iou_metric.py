"""DeepLab-like segmentation; a metric object collects predictions until compute() is called."""

import torch
from torch import nn
from torch.nn import functional


class MeanIoU:
    def __init__(self, classes):
        self.classes = classes
        self.predictions, self.targets = [], []

    def update(self, logits, target):
        self.predictions.append(logits.detach().softmax(1))
        self.targets.append(target)

    def compute(self):
        p, t = torch.cat(self.predictions).argmax(1), torch.cat(self.targets)
        ious = []
        for c in range(self.classes):
            union = ((p == c) | (t == c)).sum()
            ious.append(((p == c) & (t == c)).sum() / union.clamp(min=1))
        return torch.stack(ious).mean()


class AtrousPyramid(nn.Module):
    def __init__(self, i, o, rates=(1, 2, 4)):
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(i, o, 3, padding=r, dilation=r) for r in rates)
        self.project = nn.Conv2d(o * len(rates), o, 1)

    def forward(self, x):
        return self.project(torch.cat([functional.relu(b(x)) for b in self.branches], 1))


class DeepLab(nn.Module):
    def __init__(self, classes=12):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 32, 3, 2, 1), nn.ReLU()
        )
        self.pyramid = AtrousPyramid(32, 32)
        self.classifier = nn.Conv2d(32, classes, 1)

    def forward(self, x):
        y = self.classifier(self.pyramid(self.encoder(x)))
        return functional.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


def main(steps=24):
    torch.manual_seed(0)
    model, metric = DeepLab(), MeanIoU(12)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1, steps + 1):
        x, y = torch.rand(4, 3, 96, 96), torch.randint(12, (4, 96, 96))
        logits = model(x)
        loss = functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        metric.update(logits, y)
        if step % 8 == 0:
            print(step, loss.item(), metric.compute().item())


if __name__ == "__main__":
    main()

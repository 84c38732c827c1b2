"""Instance segmentation; the precision metric stores full-size masks and is never reset."""

import torch
from torch import nn
from torch.nn import functional


class MaskNet(nn.Module):
    def __init__(self, width=24, instances=16):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, 2, 1), nn.ReLU()
        )
        self.masks = nn.Conv2d(width, instances, 1)

    def forward(self, x):
        return self.masks(self.backbone(x))


class AveragePrecision:
    def __init__(self):
        self.predicted, self.true = [], []

    def update(self, logits, masks):
        full = functional.interpolate(logits, size=masks.shape[-2:], mode="bilinear")
        self.predicted.append(full.sigmoid())
        self.true.append(masks)

    def compute(self):
        scores = []
        for predicted, true in zip(self.predicted, self.true, strict=True):
            both = (predicted > 0.5) & (true > 0.5)
            either = (predicted > 0.5) | (true > 0.5)
            scores.append(both.sum() / either.sum().clamp(min=1))
        return torch.stack(scores).mean().item()


def dice(logits, masks):
    p = logits.sigmoid()
    return 1 - 2 * (p * masks).sum() / (p.sum() + masks.sum() + 1)


def main(epochs=8, steps=4, validation=3):
    torch.manual_seed(0)
    model, metric = MaskNet(), AveragePrecision()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    held_out = [
        (torch.rand(1, 3, 192, 192), torch.rand(1, 16, 192, 192)) for _ in range(validation)
    ]
    for epoch in range(epochs):
        for _ in range(steps):
            x, masks = torch.rand(4, 3, 96, 96), torch.rand(4, 16, 24, 24).round()
            loss = dice(model(x), masks)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for x, masks in held_out:
                metric.update(model(x), masks)
        model.train()
        print(epoch, loss.item(), metric.compute())


if __name__ == "__main__":
    main()

"""An anchor-free detector: a feature pyramid, heads on each level, average precision at the end."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    """Pictures with one bright rectangle each; each level has targets."""

    def __init__(self, count=64, size=128):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        picture = 0.1 * torch.rand(3, self.size, self.size, generator=generator)
        x, y = torch.randint(0, self.size - 32, (2,), generator=generator).tolist()
        picture[:, y : y + 32, x : x + 32] += 0.8
        return picture, torch.tensor([x, y, x + 32, y + 32], dtype=torch.float)


def conv(inputs, outputs, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.GroupNorm(4, outputs), nn.ReLU()
    )


class Pyramid(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = conv(3, width, 2)
        self.stages = nn.ModuleList(conv(width, width, 2) for _ in range(3))
        self.laterals = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        levels, above = [], None
        for lateral, feature in zip(reversed(self.laterals), reversed(features), strict=False):
            level = lateral(feature)
            if above is not None:
                level = level + functional.interpolate(above, scale_factor=2)
            levels.append(level)
            above = level
        return levels[::-1]


class Detector(nn.Module):
    def __init__(self, classes=80, width=16):
        super().__init__()
        self.backbone = Pyramid(width)
        self.scores = nn.Conv2d(width, classes, 3, padding=1)
        self.boxes = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x):
        levels = self.backbone(x)
        scores = torch.cat([self.scores(each).flatten(2) for each in levels], 2)
        boxes = torch.cat([self.boxes(each).flatten(2) for each in levels], 2)
        return scores.transpose(1, 2), boxes.transpose(1, 2).exp()


def sigmoid_focal(scores, targets, gamma=2.0):
    loss = functional.binary_cross_entropy_with_logits(scores, targets, reduction="none")
    return (loss * (1 - torch.exp(-loss)) ** gamma).sum() / max(targets.sum().item(), 1)


class AveragePrecision:
    def __init__(self):
        self.predictions = []

    def update(self, scores, boxes, truth):
        probabilities = scores.detach().sigmoid()
        self.predictions.append((torch.cat([boxes.detach(), probabilities], -1), truth))

    def compute(self):
        hits = [p[..., 4].max(1).values.mean().item() for p, _ in self.predictions]
        return sum(hits) / len(hits)


def main(epochs=6):
    torch.manual_seed(0)
    loader = DataLoader(Scenes(), batch_size=8, shuffle=True)
    model = Detector()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    precision = AveragePrecision()
    for epoch in range(epochs):
        for pictures, truth in loader:
            scores, boxes = model(pictures)
            targets = torch.zeros_like(scores)
            targets[torch.arange(len(truth)), (truth[:, 0] * 2).long() % scores.shape[1], 0] = 1
            loss = sigmoid_focal(scores, targets) + 0.1 * functional.l1_loss(
                boxes.mean(1), truth / 128
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
            precision.update(scores, boxes, truth)
        print(f"epoch {epoch}: loss {loss.item():.3f}, AP {precision.compute():.3f}")


if __name__ == "__main__":
    main()

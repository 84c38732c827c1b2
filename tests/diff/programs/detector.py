"""An object detector: a backbone, a feature pyramid and a shared head, with SGD."""

import torch
import torch.nn.functional as F
from torch import nn

IMAGE_SIZE = 64
BATCH_SIZE = 4
NUM_CLASSES = 8
NUM_ANCHORS = 3
PYRAMID = 32


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(),
    )


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_bn(3, 16, 2)
        self.stage1 = conv_bn(16, 32, 2)
        self.stage2 = conv_bn(32, 64, 2)
        self.stage3 = conv_bn(64, 96, 2)

    def forward(self, x):
        c1 = self.stage1(self.stem(x))
        c2 = self.stage2(c1)
        c3 = self.stage3(c2)
        return c1, c2, c3


class FPN(nn.Module):
    def __init__(self):
        super().__init__()
        self.lateral = nn.ModuleList([nn.Conv2d(c, PYRAMID, 1) for c in (32, 64, 96)])
        self.smooth = nn.ModuleList([nn.Conv2d(PYRAMID, PYRAMID, 3, padding=1) for _ in range(3)])

    def forward(self, features):
        maps = [conv(f) for conv, f in zip(self.lateral, features, strict=True)]
        for i in (1, 0):
            maps[i] = maps[i] + F.interpolate(maps[i + 1], scale_factor=2)
        return [conv(m) for conv, m in zip(self.smooth, maps, strict=True)]


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = conv_bn(PYRAMID, PYRAMID)
        self.cls = nn.Conv2d(PYRAMID, NUM_ANCHORS * NUM_CLASSES, 3, padding=1)
        self.box = nn.Conv2d(PYRAMID, NUM_ANCHORS * 4, 3, padding=1)

    def forward(self, x):
        x = self.tower(x)
        batch = x.shape[0]
        scores = self.cls(x).permute(0, 2, 3, 1).reshape(batch, -1, NUM_CLASSES)
        boxes = self.box(x).permute(0, 2, 3, 1).reshape(batch, -1, 4)
        return scores, boxes


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.fpn = FPN()
        self.head = Head()

    def forward(self, images):
        outputs = [self.head(f) for f in self.fpn(self.backbone(images))]
        scores = torch.cat([o[0] for o in outputs], dim=1)
        boxes = torch.cat([o[1] for o in outputs], dim=1)
        return scores, boxes


def focal_loss(scores, targets, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(scores, targets, reduction="none")
    p = torch.sigmoid(scores)
    p_t = p * targets + (1 - p) * (1 - targets)
    return (ce * (1 - p_t) ** gamma).mean()


@torch.no_grad()
def evaluate(model, images):
    model.eval()
    scores, _ = model(images)
    model.train()
    return scores.sigmoid().max().item()


def train(steps=6):
    torch.manual_seed(1)
    model = Detector()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    val_images = torch.rand(BATCH_SIZE, 3, IMAGE_SIZE, IMAGE_SIZE)
    log = {"loss": [], "val": []}
    for _ in range(steps):
        images = torch.rand(BATCH_SIZE, 3, IMAGE_SIZE, IMAGE_SIZE)
        scores, boxes = model(images)
        targets = (torch.rand_like(scores) > 0.99).float()
        offsets = torch.randn_like(boxes)
        loss_cls = focal_loss(scores, targets)
        loss_box = F.smooth_l1_loss(boxes, offsets)
        loss = loss_cls + loss_box
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss.item())
        log["val"].append(evaluate(model, val_images))
    return log


if __name__ == "__main__":
    print(train())

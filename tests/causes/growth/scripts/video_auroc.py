"""Segment short clips with 3D convolutions; the metric of the epoch is an AUROC."""

import torch
from torch import nn
from torch.nn import functional
from torchmetrics.classification import BinaryAUROC


class ClipSegmenter(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.down = nn.Conv3d(3, width, (1, 3, 3), padding=(0, 1, 1))
        self.time = nn.Conv3d(width, width, (3, 1, 1), padding=(1, 0, 0))
        self.head = nn.Conv3d(width, 1, 1)

    def forward(self, clips):
        x = functional.relu(self.down(clips))
        x = functional.relu(self.time(x))
        return self.head(x)[:, 0]


def main(steps=40):
    torch.manual_seed(0)
    model = ClipSegmenter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    auroc = BinaryAUROC()
    for step in range(steps):
        clips = torch.rand(4, 3, 8, 64, 64)
        masks = (clips.mean(1) > 0.5).long()
        logits = model(clips)
        loss = functional.binary_cross_entropy_with_logits(logits, masks.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        auroc.update(torch.sigmoid(logits), masks)
        if step % 10 == 0:
            print(step, loss.item())


main()

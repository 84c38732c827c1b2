"""An AUROC that keeps every score, and is reset at the end of each epoch."""

import torch
from torch import nn
from torch.nn import functional
from torchmetrics.classification import BinaryAUROC


def main(epochs=5, batches=8):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv3d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv3d(4, 1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    auroc = BinaryAUROC()
    for epoch in range(epochs):
        for _ in range(batches):
            clips = torch.rand(4, 3, 6, 48, 48)
            masks = (clips.mean(1) > 0.5).long()
            logits = model(clips)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, masks.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            auroc.update(torch.sigmoid(logits.detach()), masks)
        print(epoch, auroc.compute().item())
        auroc.reset()


main()

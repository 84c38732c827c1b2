"""Metric learning with batch-hard triplets; all pairwise differences in one tensor."""

import torch
from torch import nn


class Embedder(nn.Module):
    def __init__(self, inputs=256, out=96):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, out)
        )

    def forward(self, x):
        return nn.functional.normalize(self.layers(x), dim=1)


def batch_hard(embeddings, labels, margin=0.2):
    difference = embeddings.unsqueeze(0) - embeddings.unsqueeze(1)
    distances = (difference.pow(2).sum(2) + 1e-12).sqrt()
    same = labels[:, None] == labels[None, :]
    hardest_positive = (distances * same).amax(1)
    hardest_negative = distances.masked_fill(same, float("inf")).amin(1)
    return torch.relu(hardest_positive - hardest_negative + margin).mean()


def main(steps=8, batch=320):
    torch.manual_seed(0)
    model = Embedder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    centres = torch.randn(40, 256)
    for step in range(steps):
        labels = torch.randint(40, (batch,))
        x = centres[labels] + 0.5 * torch.randn(batch, 256)
        loss = batch_hard(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

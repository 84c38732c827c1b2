"""A convolutional mixer; after each epoch the whole validation set is scored in eval mode."""

import torch
from torch import nn


class Mix(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.depth = nn.Sequential(nn.Conv2d(dim, dim, 5, padding=2, groups=dim), nn.GELU())
        self.point = nn.Sequential(nn.Conv2d(dim, dim, 1), nn.GELU(), nn.BatchNorm2d(dim))

    def forward(self, x):
        return self.point(x + self.depth(x))


class ConvMixer(nn.Module):
    def __init__(self, dim=64, depth=4, classes=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, dim, 4, 4), nn.GELU())
        self.mixes = nn.Sequential(*(Mix(dim) for _ in range(depth)))
        self.fc = nn.Linear(dim, classes)

    def forward(self, x):
        return self.fc(self.mixes(self.stem(x)).mean((2, 3)))


def validate(model, batches):
    model.eval()
    outputs = [model(x) for x, _ in batches]
    labels = torch.cat([y for _, y in batches])
    accuracy = (torch.cat(outputs).argmax(1) == labels).float().mean()
    model.train()
    return accuracy.item()


def main(epochs=2, steps=8):
    torch.manual_seed(0)
    model = ConvMixer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    validation = [(torch.rand(16, 3, 64, 64), torch.randint(12, (16,))) for _ in range(8)]
    for epoch in range(epochs):
        for _ in range(steps):
            x, y = torch.rand(16, 3, 64, 64), torch.randint(12, (16,))
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), validate(model, validation))


if __name__ == "__main__":
    main()

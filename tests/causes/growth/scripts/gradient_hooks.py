"""Saliency logging: each step registers a gradient hook whose closure holds its pictures."""

import torch
from torch import nn
from torch.nn import functional


class ConvNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 5, 4), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU()
        )
        self.classify = nn.Linear(32, classes)

    def forward(self, x):
        return self.classify(self.features(x).mean((2, 3)))


def load_pictures(count, size=112):
    return torch.rand(count, 3, size, size), torch.randint(10, (count,))


def log_saliency(model, pictures, records):
    weight = model.classify.weight

    def on_gradient(gradient):
        records["ratio"] = gradient.norm().item() / pictures.norm().item()

    weight.register_hook(on_gradient)


def main(steps=30):
    torch.manual_seed(0)
    model, records = ConvNet(), {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(steps):
        pictures, labels = load_pictures(12)
        log_saliency(model, pictures, records)
        loss = functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item(), records)


if __name__ == "__main__":
    main()

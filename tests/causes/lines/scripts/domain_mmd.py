"""Domain adaptation: digits of two sources, features drawn together by their kernel distance."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Extractor(nn.Module):
    def __init__(self, dimensions=48):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 5, 2, 2),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 5, 2, 2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 49, dimensions),
        )

    def forward(self, x):
        return self.layers(x)


class AdaptationNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.extractor = Extractor()
        self.classifier = nn.Linear(48, classes)

    def forward(self, x):
        features = self.extractor(x)
        return features, self.classifier(functional.relu(features))


class MultiKernelDistance(nn.Module):
    """The maximum mean discrepancy with Gaussian kernels of several widths."""

    def __init__(self, widths=(0.5, 1.0, 2.0)):
        super().__init__()
        self.widths = widths

    def gram(self, x):
        distance = (x[:, None, :] - x[None, :, :]).pow(2).sum(-1)
        scale = distance.detach().mean()
        return sum(torch.exp(-distance / (scale * width)) for width in self.widths)

    def forward(self, source, target):
        gram = self.gram(torch.cat([source, target]))
        n = len(source)
        return gram[:n, :n].mean() + gram[n:, n:].mean() - 2 * gram[:n, n:].mean()


def make_domain(count, contrast, noise):
    digits = torch.randint(10, (count,))
    patterns = torch.rand(10, 1, 28, 28, generator=torch.Generator().manual_seed(1))
    x = contrast * patterns[digits] + noise * torch.randn(count, 1, 28, 28)
    return TensorDataset(x, digits)


@torch.no_grad()
def accuracy(model, dataset):
    model.eval()
    x, y = dataset.tensors
    predicted = torch.cat([model(part)[1].argmax(1) for part in x.split(100)])
    model.train()
    return (predicted == y).float().mean().item()


def main(epochs=3, weight=0.5):
    torch.manual_seed(0)
    source, target = make_domain(800, 1.0, 0.1), make_domain(800, 0.6, 0.3)
    model, discrepancy = AdaptationNet(), MultiKernelDistance()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    for epoch in range(epochs):
        loaders = [DataLoader(each, 200, shuffle=True, drop_last=True) for each in (source, target)]
        for (x, y), (x_target, _) in zip(*loaders, strict=False):
            features, logits = model(x)
            features_target, _ = model(x_target)
            distance = discrepancy(features, features_target)
            loss = functional.cross_entropy(logits, y) + weight * distance
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(
            f"epoch {epoch}: loss {loss.item():.3f}, distance {distance.item():.4f}, "
            f"source {accuracy(model, source):.2f}, target {accuracy(model, target):.2f}"
        )


if __name__ == "__main__":
    main()

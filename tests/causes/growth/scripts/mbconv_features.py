"""Fine-tune a small EfficientNet; hooks collect the channel statistics of its blocks."""

import collections

import torch
from torch import nn
from torch.nn import functional


class SqueezeExcite(nn.Module):
    def __init__(self, channels, ratio=4):
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // ratio, 1)
        self.expand = nn.Conv2d(channels // ratio, channels, 1)

    def forward(self, x):
        gate = functional.silu(self.reduce(x.mean((2, 3), keepdim=True)))
        return x * self.expand(gate).sigmoid()


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expansion=4):
        super().__init__()
        hidden = inputs * expansion
        self.skip = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            SqueezeExcite(hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        y = self.layers(x)
        return x + y if self.skip else y


class EfficientNet(nn.Module):
    def __init__(self, classes=37):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.stages = nn.Sequential(
            InvertedResidual(16, 24, 2),
            InvertedResidual(24, 24, 1),
            InvertedResidual(24, 40, 2),
            InvertedResidual(40, 40, 1),
        )
        self.classifier = nn.Linear(40, classes)

    def forward(self, x):
        x = self.stages(functional.silu(self.stem(x)))
        return self.classifier(x.mean((2, 3)))


class FeatureRecorder:
    """Collects the outputs of all layers of one type, to draw them after training."""

    def __init__(self, model, kind):
        self.features = collections.defaultdict(list)
        self.handles = [
            module.register_forward_hook(self.make_hook(name))
            for name, module in model.named_modules()
            if isinstance(module, kind)
        ]

    def make_hook(self, name):
        def hook(module, inputs, output):
            self.features[name].append(output.detach().cpu())

        return hook

    def summary(self):
        return {name: float(outputs[-1].std()) for name, outputs in self.features.items()}


def batches(count, size=12):
    for _ in range(count):
        yield torch.rand(size, 3, 96, 96), torch.randint(37, (size,))


def evaluate(model):
    model.eval()
    with torch.no_grad():
        right = [(model(x).argmax(1) == y).float().mean() for x, y in batches(2)]
    model.train()
    return torch.stack(right).mean().item()


def main(epochs=3, steps=8):
    torch.manual_seed(0)
    model = EfficientNet()
    recorder = FeatureRecorder(model, SqueezeExcite)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9)
    for epoch in range(epochs):
        for x, y in batches(steps):
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        print(f"epoch {epoch}: accuracy {evaluate(model):.3f}", recorder.summary())


if __name__ == "__main__":
    main()

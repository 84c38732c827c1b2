"""A ConvNeXt trained on small pictures: two parameter groups, a cosine schedule, no tricks."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width, scale=1e-2):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(scale * torch.ones(width))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.contract(functional.gelu(self.expand(y)))
        return x + (self.gamma * y).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self, widths=(32, 64), depths=(5, 5), classes=100):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 4, 4), LayerNorm2d(widths[0]))
        stages = []
        for i, (width, depth) in enumerate(zip(widths, depths, strict=False)):
            if i:
                stages += [LayerNorm2d(widths[i - 1]), nn.Conv2d(widths[i - 1], width, 2, 2)]
            stages += [ConvNextBlock(width) for _ in range(depth)]
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(nn.LayerNorm(widths[-1]), nn.Linear(widths[-1], classes))

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def parameter_groups(model, decay):
    vectors = [p for p in model.parameters() if p.ndim == 1]
    matrices = [p for p in model.parameters() if p.ndim > 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]


def make_loader(count, batch_size):
    x = torch.randint(256, (count, 3, 64, 64), dtype=torch.uint8)
    return DataLoader(TensorDataset(x, torch.randint(100, (count,))), batch_size, drop_last=True)


def mixup(x, y, classes=100, alpha=0.2):
    weight = torch.distributions.Beta(alpha, alpha).sample().item()
    order = torch.randperm(len(x))
    targets = functional.one_hot(y, classes).float()
    return x.lerp(x[order], 1 - weight), targets.lerp(targets[order], 1 - weight)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = sum((model(x / 255).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main(epochs=2):
    torch.manual_seed(0)
    train_loader, test_loader = make_loader(192, 32), make_loader(32, 16)
    model = ConvNext()
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.05), lr=2e-3)
    total = epochs * len(train_loader)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / total))
    )
    for epoch in range(epochs):
        for pictures, y in train_loader:
            x, targets = mixup(pictures / 255, y)
            loss = functional.cross_entropy(model(x), targets, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch}: {loss.item():.3f}, accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    main()

"""Fine-tuning in two stages: first the head, then with a second optimizer the whole network."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class ShuffleUnit(nn.Module):
    def __init__(self, width, groups=4):
        super().__init__()
        self.groups = groups
        self.reduce = nn.Conv2d(width, width // 4, 1, groups=groups)
        self.depthwise = nn.Conv2d(width // 4, width // 4, 3, padding=1, groups=width // 4)
        self.expand = nn.Conv2d(width // 4, width, 1, groups=groups)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        y = functional.relu(self.reduce(x))
        y = y.unflatten(1, (self.groups, -1)).transpose(1, 2).flatten(1, 2)
        return functional.relu(x + self.norm(self.expand(self.depthwise(y))))


class ShuffleNet(nn.Module):
    def __init__(self, width=64, depth=4, classes=20):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.units = nn.Sequential(*(ShuffleUnit(width) for _ in range(depth)))
        self.neck = nn.Sequential(nn.Flatten(), nn.Linear(width * 16 * 16 // 16, 512), nn.ReLU())
        self.classifier = nn.Linear(512, classes)

    def features(self, x):
        return self.neck(functional.avg_pool2d(self.units(self.stem(x)), 4))

    def forward(self, x):
        return self.classifier(self.features(x))


class FineTuning:
    def __init__(self, model, head_epochs):
        self.model, self.head_epochs = model, head_epochs
        self.freeze(True)
        self.optimizer = torch.optim.Adam(model.classifier.parameters(), lr=1e-3)

    def freeze(self, frozen):
        for name, parameter in self.model.named_parameters():
            if not name.startswith("classifier"):
                parameter.requires_grad_(not frozen)

    def begin_epoch(self, epoch):
        if epoch == self.head_epochs:
            self.freeze(False)
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def step(self, x, y):
        loss = functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def make_loader(count, size, shuffle):
    x = torch.rand(count, 3, 64, 64)
    return DataLoader(TensorDataset(x, torch.randint(20, (count,))), size, shuffle=shuffle)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main(epochs=6):
    torch.manual_seed(0)
    train, test = make_loader(128, 16, True), make_loader(32, 16, False)
    model = ShuffleNet()
    tuning = FineTuning(model, head_epochs=2)
    for epoch in range(epochs):
        tuning.begin_epoch(epoch)
        losses = [tuning.step(x, y) for x, y in train]
        print(f"epoch {epoch}: {sum(losses) / len(losses):.3f}, {accuracy(model, test):.2f}")


if __name__ == "__main__":
    main()

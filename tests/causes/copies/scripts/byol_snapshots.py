"""Self-supervised learning with BYOL: two views, an online network and its moving average."""

import copy
import itertools

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.skip(x))


def projector(inputs, hidden, outputs):
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


class Encoder(nn.Module):
    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()
        stages = [nn.Conv2d(3, widths[0], 3, 2, 1)]
        stages += [Residual(a, b, 2) for a, b in itertools.pairwise(widths)]
        self.body = nn.Sequential(*stages)
        self.projection = projector(widths[-1], 2048, 256)

    def forward(self, x):
        return self.projection(self.body(x).mean((2, 3)))


class Byol(nn.Module):
    def __init__(self, momentum=0.99):
        super().__init__()
        self.online = Encoder()
        self.predictor = projector(256, 1024, 256)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.momentum = momentum

    @torch.no_grad()
    def update_target(self):
        for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=False):
            slow.lerp_(fast, 1 - self.momentum)

    def forward(self, first, second):
        loss = 0
        for a, b in ((first, second), (second, first)):
            predicted = self.predictor(self.online(a))
            with torch.no_grad():
                target = self.target(b)
            loss = loss + 2 - 2 * functional.cosine_similarity(predicted, target).mean()
        return loss


class Snapshots:
    """The states of the last epochs, for the table of how fast features settle."""

    def __init__(self, keep=8):
        self.keep = keep
        self.states = []

    def take(self, model):
        self.states.append(copy.deepcopy(model.state_dict()))
        self.states = self.states[-self.keep :]

    def drift(self):
        first, last = self.states[0], self.states[-1]
        return sum((last[name] - first[name]).float().norm().item() for name in last)


def augment(x):
    x = x.roll(int(torch.randint(-4, 5, ())), -1)
    return (x + 0.1 * torch.randn_like(x)).flip(-1) if torch.rand(()) < 0.5 else x


def main(epochs=24, steps=2):
    torch.manual_seed(0)
    model = Byol()
    trained = [*model.online.parameters(), *model.predictor.parameters()]
    optimizer = torch.optim.SGD(trained, lr=0.05, momentum=0.9)
    snapshots = Snapshots()
    for epoch in range(epochs):
        for _ in range(steps):
            pictures = torch.rand(8, 3, 32, 32)
            loss = model(augment(pictures), augment(pictures))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.update_target()
        snapshots.take(model)
        if epoch % 8 == 7:
            print(f"epoch {epoch}: loss {loss.item():.3f}, drift {snapshots.drift():.2f}")


if __name__ == "__main__":
    main()

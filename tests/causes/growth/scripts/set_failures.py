"""A set transformer on sets of points; batches with a broken loss are skipped and listed."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Clouds(Dataset):
    """Mixtures of Gaussians; the task is to find the number of components. Some sensors fail."""

    def __init__(self, count=240, points=192):
        generator = torch.Generator().manual_seed(3)
        self.components = torch.randint(1, 6, (count,), generator=generator)
        self.count, self.points = count, points

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        number = int(self.components[index])
        means = 4 * torch.randn(number, 2, generator=generator)
        chosen = torch.randint(number, (self.points,), generator=generator)
        x = means[chosen] + 0.3 * torch.randn(self.points, 2, generator=generator)
        if index % 32 == 5:
            x[0] = float("nan")
        return x, number - 1


class InducedBlock(nn.Module):
    def __init__(self, width, heads=4, inducing=32):
        super().__init__()
        self.inducing = nn.Parameter(torch.randn(1, inducing, width) * 0.1)
        self.gather = nn.MultiheadAttention(width, heads, batch_first=True)
        self.scatter = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x):
        points = self.inducing.expand(len(x), -1, -1)
        summary, _ = self.gather(points, x, x)
        y, _ = self.scatter(x, summary, summary)
        return x + y + self.mlp(x + y)


class SetTransformer(nn.Module):
    def __init__(self, width=64, depth=2, classes=5):
        super().__init__()
        self.embed = nn.Linear(2, width)
        self.blocks = nn.ModuleList(InducedBlock(width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


class BrokenBatchError(Exception):
    """The loss of a batch is not a number."""


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.optimizer = torch.optim.NAdam(model.parameters(), lr=lr)
        self.failures = []

    def training_step(self, x, y):
        logits = self.model(x)
        loss = functional.cross_entropy(logits, y)
        if not torch.isfinite(loss):
            raise BrokenBatchError(f"loss is {loss.item()} for labels {y.tolist()}")
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            losses = []
            for x, y in loader:
                try:
                    losses.append(self.training_step(x, y))
                except BrokenBatchError as failure:
                    self.failures.append(failure)
            print(f"epoch {epoch}: {sum(losses) / len(losses):.3f}, {len(self.failures)} skipped")


def main(epochs=2):
    torch.manual_seed(0)
    loader = DataLoader(Clouds(), batch_size=8, shuffle=False)
    trainer = Trainer(SetTransformer())
    trainer.fit(loader, epochs)
    for failure in trainer.failures[:3]:
        print("skipped:", failure)


if __name__ == "__main__":
    main()

"""A hook keeps the attention of the last batch for a picture; the next batch replaces it."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class PooledAttention(nn.Module):
    """Attention pooling over the patches of a picture."""

    def __init__(self, width):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        return self.score(x).softmax(1)


class MultipleInstance(nn.Module):
    def __init__(self, width=64, classes=2):
        super().__init__()
        self.patches = nn.Conv2d(1, width, 8, 8)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.attention = PooledAttention(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.mix(self.patches(x).flatten(2).transpose(1, 2))
        return self.head((self.attention(x) * x).sum(1))


class MapRecorder:
    def __init__(self, model):
        self.maps, self.inputs = {}, {}
        self.handles = [
            module.register_forward_hook(self.hook(name))
            for name, module in model.named_modules()
            if isinstance(module, PooledAttention)
        ]

    def hook(self, name):
        def record(module, inputs, output):
            self.maps[name] = output.detach().clone()
            self.inputs[name] = inputs[0].detach()

        return record

    def entropy(self):
        return {
            k: -(m * m.clamp(min=1e-9).log()).sum(1).mean().item() for k, m in self.maps.items()
        }

    def remove(self):
        for handle in self.handles:
            handle.remove()


def bags(count):
    x = torch.rand(count, 1, 128, 128)
    labels = torch.arange(count) % 2
    x[labels == 1, :, 32:48, 32:48] += 2.0
    return TensorDataset(x, labels)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main(epochs=4):
    torch.manual_seed(0)
    train = DataLoader(bags(160), batch_size=16, shuffle=True)
    test = DataLoader(bags(32), batch_size=16)
    model = MultipleInstance()
    recorder = MapRecorder(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for x, y in train:
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}, {evaluate(model, test):.2f}", recorder.entropy())
    recorder.remove()


if __name__ == "__main__":
    main()

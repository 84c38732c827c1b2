"""A DenseNet; gradient norms of the features are shown every step, with a hook of that step."""

import torch
from torch import nn


class DenseLayer(nn.Module):
    def __init__(self, i, growth):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, growth, 3, padding=1))

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


class DenseNet(nn.Module):
    def __init__(self, growth=12, depth=4):
        super().__init__()
        self.stem = nn.Conv2d(3, 24, 3, 2, 1)
        self.dense = nn.Sequential(*(DenseLayer(24 + i * growth, growth) for i in range(depth)))
        self.fc = nn.Linear(24 + depth * growth, 10)

    def forward(self, x):
        return self.fc(self.dense(self.stem(x)).mean((2, 3)))


def watch(module, store):
    def hook(module, inputs, output):
        store["output"] = output.detach().clone()

    module.register_forward_hook(hook)


def main(steps=24):
    torch.manual_seed(0)
    net = DenseNet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(steps):
        store = {}
        watch(net.dense, store)
        x, y = torch.rand(8, 3, 48, 48), torch.randint(10, (8,))
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 6 == 0:
            print(step, loss.item(), store["output"].norm().item())


if __name__ == "__main__":
    main()

"""The hardest clip of each batch is kept as a view, and with it the whole batch."""

import torch
from torch import nn


class Clips:
    def __init__(self, n, batch):
        self.n, self.batch = n, batch

    def __iter__(self):
        for _ in range(self.n):
            yield torch.randn(self.batch, 3, 8, 32, 32), torch.randint(0, 4, (self.batch,))


class HardExampleMiner:
    """Remember the hardest clip of every batch for the second stage."""

    def __init__(self):
        self.bank = []

    def update(self, clips, losses):
        worst = int(losses.argmax())
        self.bank.append((clips[worst], losses[worst].item()))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(3, 4, 3, stride=(2, 4, 4), padding=1)
        self.fc = nn.Linear(4 * 4 * 8 * 8, 4)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).flatten(1))


net, miner = Net(), HardExampleMiner()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for clips, labels in Clips(40, 16):
    losses = nn.functional.cross_entropy(net(clips), labels, reduction="none")
    optimizer.zero_grad()
    losses.mean().backward()
    optimizer.step()
    miner.update(clips, losses.detach())
print(len(miner.bank), "hard clips")

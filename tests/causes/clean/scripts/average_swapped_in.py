"""An average of the weights, swapped in for each evaluation and back."""

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.99):
        self.model, self.decay = model, decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}
        self.backup = None

    @torch.no_grad()
    def update(self):
        for n, p in self.model.named_parameters():
            self.shadow[n].lerp_(p, 1 - self.decay)

    def __enter__(self):
        self.backup = {n: p.detach().clone() for n, p in self.model.named_parameters()}
        for n, p in self.model.named_parameters():
            p.data.copy_(self.shadow[n])

    def __exit__(self, *exc):
        for n, p in self.model.named_parameters():
            p.data.copy_(self.backup[n])
        self.backup = None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, padding=1)
        self.body = nn.Sequential(
            *[
                nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
                for _ in range(4)
            ]
        )
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean((2, 3)))


net = Net()
ema = EMA(net)
opt = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
for epoch in range(3):
    net.train()
    for _ in range(5):
        x, y = torch.rand(16, 3, 48, 48), torch.randint(10, (16,))
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update()
    net.eval()
    with ema, torch.no_grad():
        acc = (
            sum(
                (net(torch.rand(16, 3, 48, 48)).argmax(1) == 0).float().mean().item()
                for _ in range(3)
            )
            / 3
        )
    print(epoch, loss.item(), acc)

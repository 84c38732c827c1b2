"""Outputs of an epoch are collected for one metric and dropped when the epoch ends."""

import torch
from torch import nn
from torch.nn import functional


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 40))
        self.outputs = []

    def training_step(self, batch):
        x, y = batch
        logits = self.body(x)
        loss = functional.binary_cross_entropy_with_logits(logits, y)
        self.outputs.append((logits.detach().sigmoid(), y))
        return loss

    def on_train_epoch_end(self):
        scores = torch.cat([o[0] for o in self.outputs])
        true = torch.cat([o[1] for o in self.outputs])
        precision = (scores[true > 0.5]).mean() / scores.mean()
        self.outputs.clear()
        return precision.item()


class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs

    def fit(self, module, loader):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for epoch in range(self.epochs):
            for batch in loader():
                loss = module.training_step(batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(epoch, loss.item(), module.on_train_epoch_end())


def batches(count=12):
    for _ in range(count):
        yield torch.randn(256, 64), torch.randint(2, (256, 40)).float()


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(5).fit(Module(), batches)

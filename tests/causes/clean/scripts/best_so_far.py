"""Early stopping that keeps exactly one copy of the best weights and loads it at the end."""

import copy

import torch
from torch import nn
from torch.nn import functional


class Regressor(nn.Module):
    def __init__(self, inputs=32, width=192):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(inputs, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.state, self.waited = patience, float("inf"), None, 0

    def __call__(self, value, model):
        if value < self.best:
            self.best, self.state, self.waited = value, copy.deepcopy(model.state_dict()), 0
        else:
            self.waited += 1
        return self.waited >= self.patience


def main(epochs=20, steps=5):
    torch.manual_seed(0)
    weight = torch.randn(32)
    model, stopping = Regressor(), EarlyStopping(4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    val_x = torch.randn(256, 32)
    val_y = val_x @ weight
    for _epoch in range(epochs):
        for _ in range(steps):
            x = torch.randn(256, 32)
            loss = functional.huber_loss(model(x), x @ weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            value = functional.huber_loss(model(val_x), val_y).item()
        if stopping(value, model):
            break
    model.load_state_dict(stopping.state)
    print(stopping.best)


if __name__ == "__main__":
    main()

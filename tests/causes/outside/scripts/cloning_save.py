"""Saves a checkpoint after each epoch by first cloning weights and optimizer state."""

import io

import torch
from torch import nn
from torch.nn import functional


class Autoencoder(nn.Module):
    def __init__(self, inputs=1024, width=640, code=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, code))
        self.decoder = nn.Sequential(nn.Linear(code, width), nn.ReLU(), nn.Linear(width, inputs))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def clone_all(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: clone_all(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clone_all(item) for item in value]
    return value


def save(model, optimizer):
    state = clone_all({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.tell()


def main(epochs=3, steps=6):
    torch.manual_seed(0)
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for _ in range(steps):
            x = torch.rand(16, 1024)
            loss = functional.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(epoch, loss.item(), save(model, optimizer))


if __name__ == "__main__":
    main()

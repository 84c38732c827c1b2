"""Early stopping for an autoencoder: a copy of the weights whenever the loss gets better."""

import torch
from torch import nn


class AutoEncoder(nn.Module):
    def __init__(self, inputs=784, widths=(512, 256, 32)):
        super().__init__()
        layers, last = [], inputs
        for width in widths:
            layers += [nn.Linear(last, width), nn.SiLU()]
            last = width
        self.encoder = nn.Sequential(*layers[:-1])
        layers = []
        for width in (*reversed(widths[:-1]), inputs):
            layers += [nn.Linear(last, width), nn.SiLU()]
            last = width
        self.decoder = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return self.decoder(self.encoder(x))


class EarlyStopping:
    def __init__(self, patience=5):
        self.patience, self.bad = patience, 0
        self.checkpoints = {}

    def __call__(self, epoch, value, model):
        if not self.checkpoints or value < min(self.checkpoints):
            self.checkpoints[value] = {k: v.clone() for k, v in model.state_dict().items()}
            self.bad = 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def main(epochs=16):
    torch.manual_seed(0)
    basis = torch.randn(16, 784)
    data = torch.tanh(torch.randn(640, 16) @ basis)
    model = AutoEncoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    stopping = EarlyStopping()
    for epoch in range(epochs):
        total = 0.0
        for x in data.split(160):
            loss = nn.functional.mse_loss(model(x), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, round(total, 4))
        if stopping(epoch, total, model):
            break


if __name__ == "__main__":
    main()

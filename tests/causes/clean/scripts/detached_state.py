"""Truncated backpropagation: the state of the LSTM is carried on without its graph."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs=32, width=160):
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, 2, batch_first=True)
        self.out = nn.Linear(width, inputs)

    def forward(self, x, state):
        y, state = self.lstm(x, state)
        return self.out(y), state


def main(steps=32):
    torch.manual_seed(0)
    model, state, mean = Model(), None, 0.0
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        if step % 8 == 0:
            state = None
        x = torch.randn(16, 40, 32)
        y, state = model(x, state)
        state = tuple(s.detach() for s in state)
        loss = nn.functional.mse_loss(y[:, :-1], x[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = 0.9 * mean + 0.1 * loss.item()
    print(mean)


if __name__ == "__main__":
    main()

"""A character LSTM with truncated backpropagation: the state is detached between segments."""

import torch
from torch import nn
from torch.nn import functional


class CharRNN(nn.Module):
    def __init__(self, letters=60, width=128):
        super().__init__()
        self.embed, self.out = nn.Embedding(letters, 32), nn.Linear(width, letters)
        self.lstm = nn.LSTM(32, width, 2, batch_first=True, dropout=0.1)

    def forward(self, ids, state=None):
        y, state = self.lstm(self.embed(ids), state)
        return self.out(y), state


def main(steps=30, length=32):
    torch.manual_seed(0)
    text = torch.randint(60, (16, steps * length + 1))
    model, state, smoothed = CharRNN(), None, None
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for step in range(steps):
        segment = text[:, step * length : (step + 1) * length + 1]
        logits, state = model(segment[:, :-1], state)
        state = tuple(s.detach() for s in state)
        loss = functional.cross_entropy(logits.flatten(0, 1), segment[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        smoothed = loss.item() if smoothed is None else 0.9 * smoothed + 0.1 * loss.item()
    print(smoothed)


if __name__ == "__main__":
    main()

"""Character language model with an LSTM; the loss on other text is smoothed exponentially."""

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog and runs through the winter forest " * 400


class CharModel(nn.Module):
    def __init__(self, vocabulary, width=192):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, x, state=None):
        y, state = self.lstm(self.embedding(x), state)
        return self.out(y), state


class Smoothed:
    def __init__(self, beta=0.95):
        self.beta, self.value = beta, 0.0

    def update(self, loss):
        self.value = self.beta * self.value + (1 - self.beta) * loss
        return self.value


def batches(data, batch=16, length=64):
    while True:
        starts = torch.randint(len(data) - length - 1, (batch,))
        chunk = torch.stack([data[s : s + length + 1] for s in starts])
        yield chunk[:, :-1], chunk[:, 1:]


def main(steps=30):
    torch.manual_seed(0)
    letters = sorted(set(TEXT))
    data = torch.tensor([letters.index(c) for c in TEXT])
    model = CharModel(len(letters))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    smoothed, held_out = Smoothed(), batches(data, batch=4)
    for step, (x, y) in zip(range(steps), batches(data), strict=False):
        logits, _ = model(x)
        loss = criterion(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        text, following = next(held_out)
        value = smoothed.update(criterion(model(text)[0].flatten(0, 1), following.flatten()))
        if step % 10 == 0:
            print(f"{step}: {float(value):.3f}")


if __name__ == "__main__":
    main()

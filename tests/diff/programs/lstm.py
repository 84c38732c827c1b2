"""An LSTM that predicts the next word, trained by truncated backpropagation through time."""

import torch
from torch import nn

BATCH, LENGTH, WIDTH, WORDS = 16, 32, 128, 400


class WordModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, words, state):
        y, state = self.lstm(self.embedding(words), state)
        return self.out(y), state


def detached(state):
    return None if state is None else tuple(part.detach() for part in state)


def train(steps=8):
    torch.manual_seed(0)
    model = WordModel()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    state = None
    log = []
    for _ in range(steps):
        words = torch.randint(WORDS, (BATCH, LENGTH + 1))
        logits, state = model(words[:, :-1], detached(state))
        loss = criterion(logits.reshape(-1, WORDS), words[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        log.append(loss.item())
    return log


train()

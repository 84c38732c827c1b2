"""CTC on utterances of very different lengths, in random order; a rare long one sets the peak."""

import random

import torch
from torch import nn
from torch.nn import functional


class Recognizer(nn.Module):
    def __init__(self, mels=40, width=96, letters=28):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(mels, width, 5, 2, 2), nn.BatchNorm1d(width), nn.ReLU())
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(2 * width, letters)

    def forward(self, speech):
        y, _ = self.rnn(self.conv(speech).transpose(1, 2))
        return self.letters(y).log_softmax(-1)


def collate(lengths):
    speech = torch.zeros(len(lengths), 40, max(lengths))
    for row, length in zip(speech, lengths, strict=True):
        row[:, :length] = torch.randn(40, length)
    text = torch.randint(1, 28, (len(lengths), 10))
    return speech, text, torch.tensor([length // 2 for length in lengths])


def main(steps=30):
    torch.manual_seed(0)
    random.seed(0)
    model = Recognizer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        lengths = [int(random.lognormvariate(4.8, 0.5)) + 40 for _ in range(6)]
        speech, text, frames = collate(lengths)
        scores = model(speech)
        loss = functional.ctc_loss(scores.transpose(0, 1), text, frames, torch.full((6,), 10))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item(), speech.shape[2])


if __name__ == "__main__":
    main()

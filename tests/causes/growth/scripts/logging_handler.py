"""A CTC speech model; structured logging with a handler that keeps the records for the tests."""

import logging

import torch
from torch import nn

log = logging.getLogger("trainer")


class MemoryHandler(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


class SpeechNet(nn.Module):
    def __init__(self, mels=80, width=128, letters=29):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(mels, width, 11, 2, 5),
            nn.GELU(),
            nn.Conv1d(width, width, 11, 1, 5),
            nn.GELU(),
        )
        self.rnn = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, letters)

    def forward(self, x):
        x = self.conv(x).transpose(1, 2)
        return self.out(self.rnn(x)[0]).log_softmax(-1)


def make_batch(n=8, frames=400):
    lengths = torch.randint(10, 30, (n,))
    return torch.randn(n, 80, frames), torch.randint(1, 29, (n, 30)), lengths


def main(steps=20):
    torch.manual_seed(0)
    handler = MemoryHandler()
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    model = SpeechNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    ctc = nn.CTCLoss()
    for step in range(steps):
        x, targets, lengths = make_batch()
        log_probs = model(x)
        frames = torch.full((len(x),), log_probs.shape[1])
        loss = ctc(log_probs.transpose(0, 1), targets, frames, lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.debug("step %d: loss %s, spectrogram %s", step, loss.detach(), x)
    print(len(handler.records), "records")


if __name__ == "__main__":
    main()

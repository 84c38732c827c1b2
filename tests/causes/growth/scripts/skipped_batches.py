"""CTC speech recognition; batches that raise are skipped and their exceptions kept for a report."""

import torch
from torch import nn
from torch.nn import functional


class AlignmentError(ValueError):
    pass


class Recognizer(nn.Module):
    def __init__(self, mels=40, width=96, letters=30):
        super().__init__()
        self.conv = nn.Conv1d(mels, width, 3, padding=1)
        self.encoder = nn.GRU(width, width, 2, batch_first=True, bidirectional=True)
        self.letters = nn.Linear(2 * width, letters)

    def forward(self, speech, lengths):
        frames = functional.relu(self.conv(speech)).transpose(1, 2)
        encoded, _ = self.encoder(frames)
        scores = self.letters(encoded).log_softmax(-1)
        if int(lengths.max()) > scores.shape[1]:
            raise AlignmentError(f"{int(lengths.max())} letters for {scores.shape[1]} frames")
        return scores


def batches(count):
    for i in range(count):
        longest = 300 if i % 2 else 40
        yield (
            torch.randn(6, 40, 160),
            torch.randint(1, 30, (6, longest)),
            torch.full((6,), longest),
        )


def train(model, count=40):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    failures = []
    for number, (speech, text, lengths) in enumerate(batches(count)):
        try:
            scores = model(speech, lengths)
        except AlignmentError as error:
            failures.append((number, error))
            continue
        loss = functional.ctc_loss(
            scores.transpose(0, 1), text, torch.full((6,), scores.shape[1]), lengths
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
    for number, error in failures:
        print(f"skipped batch {number}: {error}")


if __name__ == "__main__":
    torch.manual_seed(0)
    train(Recognizer())

"""Keyword spotting; a NumPy window turns the spectrogram into float64 and complex128."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional


class Spectrogram:
    def __init__(self, size=512, hop=128):
        self.size, self.hop = size, hop
        self.window = torch.from_numpy(np.hanning(size))

    def __call__(self, audio):
        frames = audio.unfold(-1, self.size, self.hop)
        return torch.fft.rfft(frames * self.window).abs().log1p().float().transpose(1, 2)


class Spotter(nn.Module):
    def __init__(self, words=12):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(257, 32, 3, 2), nn.Conv1d(32, 32, 3, 2)
        self.words = nn.Linear(32, words)

    def forward(self, x):
        x = functional.relu(self.conv2(functional.relu(self.conv1(x))))
        return self.words(x.mean(2))


def main(steps=8):
    torch.manual_seed(0)
    features, model = Spectrogram(), Spotter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        audio, words = torch.randn(16, 32_000), torch.randint(12, (16,))
        loss = functional.cross_entropy(model(features(audio)), words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

"""A vocoder trained on the distance of spectrograms."""

import torch
from torch import nn
from torch.nn import functional

WINDOW = torch.hann_window(1024)


def log_spectrogram(wave, hop=20):
    spectrum = torch.stft(wave, 1024, hop, window=WINDOW, return_complex=True)
    return torch.log(spectrum.abs() + 1e-5)


class Vocoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mel = nn.Conv1d(40, 32, 3, padding=1)
        self.up = nn.ConvTranspose1d(32, 4, 256, stride=128, padding=64)
        self.wave = nn.Conv1d(4, 1, 7, padding=3)

    def forward(self, mel):
        return torch.tanh(
            self.wave(functional.leaky_relu(self.up(functional.leaky_relu(self.mel(mel)))))
        )[:, 0]


def main(steps=12):
    torch.manual_seed(0)
    model = Vocoder()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        wave = torch.randn(4, 128 * 120)
        made = model(torch.randn(4, 40, 120))
        loss = functional.l1_loss(log_spectrogram(made), log_spectrogram(wave))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

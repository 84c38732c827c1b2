"""A transducer for speech: the joiner combines every frame with every word piece."""

import torch
from torch import nn
from torch.nn import functional


class Joiner(nn.Module):
    def __init__(self, width, pieces):
        super().__init__()
        self.out = nn.Linear(width, pieces)

    def forward(self, frames, words):
        both = torch.tanh(frames[:, :, None] + words[:, None])
        return functional.log_softmax(self.out(both), -1)


class Transducer(nn.Module):
    def __init__(self, width=64, pieces=1500):
        super().__init__()
        self.encoder = nn.GRU(80, width, batch_first=True)
        self.embed = nn.Embedding(pieces, width)
        self.predictor = nn.GRU(width, width, batch_first=True)
        self.joiner = Joiner(width, pieces)

    def forward(self, features, text):
        frames, _ = self.encoder(features)
        words, _ = self.predictor(self.embed(text))
        return self.joiner(frames, words)


def main(steps=10):
    torch.manual_seed(0)
    model = Transducer()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        features, text = torch.randn(4, 80, 80), torch.randint(1, 1500, (4, 20))
        log_probs = model(features, text)
        labels = text[:, None, :, None].expand(-1, 80, -1, 1)
        emit, blank = log_probs.gather(-1, labels)[..., 0], log_probs[..., 0]
        loss = -torch.logaddexp(emit, blank).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

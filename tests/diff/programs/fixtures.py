"""A test suite: a fixture builds a small transformer, and a test trains it."""

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, INNER, LAYERS, WORDS = 8, 32, 64, 128, 3, 200


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, INNER, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.tags = nn.Linear(WIDTH, WORDS)

    def forward(self, numbers):
        return self.tags(self.encoder(self.words(numbers)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Tagger()


@pytest.fixture
def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def test_loss_falls(model, optimizer):
    losses = []
    for _ in range(8):
        x = torch.randint(WORDS, (BATCH, LENGTH))
        loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "--import-mode=importlib", __file__]))

"""Validations and inference that build a graph which no backward uses."""

from __future__ import annotations

import torch
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.nn import functional


@program("mlp", "cnn", "transformer", "vit", "diffusion")
def validation_with_graph(architecture):
    training = Training(architecture, 0.5)
    larger = architecture.batch(2 * architecture.samples)
    for _ in range(2):
        training.steps(2)
        loss = training.loss(*larger)
        del loss


@program("unet", "moe", "gru")
def inference_with_graph(architecture):
    training = Training(architecture, 2)
    for _ in range(3):
        output = training.output()
        del output


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x))
        return self.head(x.mean((2, 3)))


def pictures():
    return torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))


def trained_and_validated(add):
    """Trains a small network, and adds up the losses of a validation with `add`."""
    model, criterion = Pictures(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(2):
        for _ in range(10):
            x, y = pictures()
            step_of(optimizer, criterion(model(x), y))
        running_loss = 0.0
        for _ in range(15):
            x, y = pictures()
            running_loss = add(running_loss, criterion(model(x), y))


@standalone("everyday")
def running_loss_of_a_validation():
    """The criterion is a module, as in most programs."""
    trained_and_validated(lambda total, loss: total + loss)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.linear = nn.Linear(32, 32)

    def forward(self, x):
        mixed, weights = self.attention(x, x, x, average_attn_weights=False)
        return x + self.linear(x + mixed), weights


class Classifier(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        maps = []
        for block in self.blocks:
            x, weights = block(x)
            maps.append(weights)
        return self.head(x[:, 0]), maps


def trained_and_evaluated(evaluation):
    """Trains a classifier, and keeps what it returns in evaluations under `evaluation`."""
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(2):
        for _ in range(8):
            logits, _ = model(torch.randn(8, 48, 32))
            step_of(optimizer, functional.cross_entropy(logits, torch.randint(0, 2, (8,))))
        predictions = []
        with evaluation():
            for _ in range(25):
                predictions.append(model(torch.randn(8, 48, 32)))


@standalone("without_graph")
def attention_maps_with_their_graphs():
    trained_and_evaluated(torch.enable_grad)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, 128)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)) for _ in range(5)
        )

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = x + block(x)
        if tokens.numel() > 2048:
            raise torch.OutOfMemoryError("Tried to allocate 20.00 MiB")
        return x.square().mean()


def trained_with_retries(retry):
    model = Decoder()
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def train(tokens):
        model(tokens).backward()

    for step in range(8):
        optimizer.zero_grad()
        retry(train, torch.randint(0, 256, (32 if step % 4 == 1 else 16, 128)))
        optimizer.step()


@standalone("reported")
def retry_inside_the_except_block():
    """The exception that is handled retains the frames of the attempt that failed."""

    def retry(train, tokens):
        try:
            train(tokens)
        except torch.OutOfMemoryError:
            for half in tokens.chunk(2):
                train(half)

    trained_with_retries(retry)

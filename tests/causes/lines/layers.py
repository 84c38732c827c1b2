"""One layer, or the tensor of one layer, fills the peak."""

from __future__ import annotations

import torch
from tests.causes.architectures import Block, LanguageModel, Mlp, Recommender, word_loss
from tests.causes.registry import program, standalone
from tests.causes.training import step_of
from torch import nn


class WideMiddle(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = Mlp(64, 2)
        self.wide = nn.Sequential(nn.Linear(64, 8192), nn.GELU(), nn.Linear(8192, 64))
        self.leave = Mlp(64, 2)

    def forward(self, x):
        return self.leave(self.wide(self.enter(x)))


def train(model, batches, loss_of, optimizer=torch.optim.SGD):
    optimizer = optimizer(model.parameters(), lr=1e-3)
    for batch in batches:
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()


def mean_square(model, *batch):
    return model(*batch).square().mean()


@program("mlp")
def one_wide_layer(_):
    train(WideMiddle(), [(torch.rand(1024, 64),) for _ in range(3)], mean_square)


@program("transformer")
def one_wide_block(_):
    model = LanguageModel(200, 64, 3)
    model.blocks[1] = Block(64, 4, inner=4096)
    train(model, [(torch.randint(200, (16, 96)),) for _ in range(3)], word_loss)


@program("transformer")
def quadratic_attention(_):
    model = LanguageModel(100, 32, 2)
    train(model, [(torch.randint(100, (1, 1024)),) for _ in range(2)], word_loss)


@program("vit")
def attention_of_one_layer(_):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.attend, self.leave = Mlp(64, 2), Block(64, 4), Mlp(64, 2)

        def forward(self, x):
            return self.leave(self.attend(self.enter(x)))

    train(Net(), [(torch.rand(1, 1200, 64),) for _ in range(2)], mean_square)


@program("transformer")
def vocabulary_logits(_):
    model = LanguageModel(30_000, 16, 1)
    train(model, [(torch.randint(30_000, (2, 256)),) for _ in range(2)], word_loss)


@program("recommender")
def giant_embedding(_):
    model = Recommender(items=600_000, sparse=True)
    rows = [(torch.randint(5_000, (256,)), torch.randint(600_000, (256,))) for _ in range(3)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for users, items in rows:
        optimizer.zero_grad()
        mean_square(model, users, items).backward()
        optimizer.step()


@program("recommender")
def dense_gradient_of_embedding(_):
    model = Recommender(items=600_000)
    rows = [(torch.randint(5_000, (256,)), torch.randint(600_000, (256,))) for _ in range(3)]
    train(model, rows, mean_square)


@standalone("everyday")
def embedding_with_dense_gradient(steps=6):
    model = nn.Sequential(nn.Embedding(40_000, 64), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        step_of(optimizer, model(torch.randint(0, 40_000, (64,))).square().mean())

"""The peak is outside training: in an evaluation, a save or an initialisation."""

from __future__ import annotations

import io

import torch
from tests.causes.models import Encoder
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.nn import functional

MIB_OF_FLOATS = 1 << 18


@program("vit", "unet", "cnn")
def evaluation_of_everything(architecture):
    training = Training(architecture, 0.25)
    training.steps(3)
    with torch.no_grad():
        training.output(*architecture.batch(12 * architecture.samples))
    training.steps(1)


@program("transformer", "moe", wide=True)
def checkpoint_saved(architecture):
    training = Training(architecture)
    for step in range(4):
        training.step()
        training.optimizer.zero_grad()
        if step == 1:
            state = {name: value.double() for name, value in training.model.state_dict().items()}
            torch.save(state, io.BytesIO())
            del state


@program("gnn", "splats")
def initialisation(architecture):
    training = Training(architecture, 0.25)
    raw = torch.rand(80 * MIB_OF_FLOATS)
    mean = ((raw - raw.mean()) / raw.std()).mean()
    del raw, mean
    training.steps(3)


@program("vit", "gan")
def scratch_between_steps(architecture):
    """Statistics of all pairs, after each step."""
    training = Training(architecture, 0.25)
    for _ in range(3):
        training.step()
        features = torch.rand(4000, 8)
        torch.cdist(features, features).sort()


@standalone("held_out_tta")
def all_augmentations_stacked(steps=16):
    model = Encoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def evaluate(images):
        views = [images, images.flip(-1), images.flip(-2), images.transpose(-1, -2)]
        views += [view + 0.01 * torch.randn_like(view) for view in views]
        return model(torch.cat(views)).view(len(views), len(images), -1).mean(0)

    for step in range(steps):
        loss = model(torch.randn(32, 3, 32, 32)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 8 == 7:
            with torch.no_grad():
                evaluate(torch.randn(256, 3, 32, 32))


@standalone("filter")
def results_of_evaluation_kept(epochs=3):
    """The results of an evaluation stay in a variable until the next one."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(epochs):
        for _ in range(6):
            step_of(optimizer, model(torch.rand(2, 3, 64, 64)).square().mean())
        with torch.no_grad():
            results = []
            for _ in range(40):
                results.append(model(torch.rand(4, 3, 64, 64)))
            torch.cat(results).mean().item()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(2000, 32), nn.Linear(32, 2000)

    def forward(self, x):
        return self.head(self.words(x))


def trained_classifier(steps=6):
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randint(0, 2000, (128,))
        step_of(optimizer, functional.cross_entropy(model(x), x))
    return model


def joined(collected, new):
    return new if collected is None else torch.cat((collected, new))


@standalone("kept")
def logits_concatenated(batches=24):
    """One line makes two tensors longer in turn."""
    model = trained_classifier()
    logits = labels = None
    with torch.no_grad():
        for _ in range(batches):
            x = torch.randint(0, 2000, (128,))
            logits = joined(logits, model(x))
            labels = joined(labels, torch.randint(0, 2000, (1024,)))
    (logits.argmax(-1).sum() + labels.sum()).item()
    del logits, labels
    trained_classifier()


@standalone("kept")
def logits_listed(batches=24):
    model = trained_classifier()
    logits = []
    with torch.no_grad():
        for _ in range(batches):
            logits.append(model(torch.randint(0, 2000, (128,))))
    torch.cat(logits).argmax(-1).sum().item()
    del logits
    trained_classifier()

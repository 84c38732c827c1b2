"""Training programs without a mistake."""

from __future__ import annotations

import copy
import io
from collections import deque

import torch
from tests.causes.architectures import ARCHITECTURES, Mlp
from tests.causes.registry import program
from tests.causes.training import Training
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

SHARE = 0.1


@program(*ARCHITECTURES)
def plain(architecture):
    Training(architecture, SHARE, torch.optim.Adam).steps(12)


@program("transformer", "cnn")
def validated(architecture):
    training = Training(architecture, SHARE)
    for _ in range(4):
        training.steps(3)
        training.model.eval()
        with torch.no_grad():
            training.output()
        training.model.train()


@program("unet", "gru")
def validated_in_inference_mode(architecture):
    training, scores = Training(architecture, SHARE), []
    for _ in range(4):
        training.steps(3)
        with torch.inference_mode():
            scores.append(training.loss().item())


@program("vit")
def gathered_gradients(architecture):
    training = Training(architecture, SHARE)
    for step in range(16):
        (training.loss() / 4).backward()
        if step % 4 == 3:
            training.optimizer.step()
            training.optimizer.zero_grad()


@program("gan")
def two_optimizers(architecture):
    training = Training(architecture, SHARE)
    model = training.model
    critic = torch.optim.Adam(model.critic.parameters())
    generator = torch.optim.Adam(model.generator.parameters())
    for _ in range(8):
        noise = training.batch()[0]
        critic.zero_grad()
        model.critic(model.generator(noise).detach()).mean().backward()
        critic.step()
        generator.zero_grad()
        model(noise).mean().neg().backward()
        generator.step()


@program("mlp")
def longer_and_longer(architecture):
    training = Training(architecture, SHARE)
    for step in range(16):
        training.step(*architecture.batch(128 + 64 * step))


@program("gnn")
def any_size(architecture):
    training = Training(architecture, SHARE)
    for step in range(16):
        training.step(*architecture.batch(128 + 97 * (step * 7 % 11)))


@program("diffusion")
def average_kept(architecture):
    training = Training(architecture, SHARE)
    average = copy.deepcopy(training.model)
    for _ in range(12):
        training.step()
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), training.model.parameters(), strict=True):
                mine.lerp_(theirs, 0.1)


@program("moe")
def replayed(architecture):
    training, buffer = Training(architecture, SHARE), deque(maxlen=4)
    for _ in range(24):
        buffer.append(architecture.batch(training.samples))
        training.step(*buffer[0])


@program("vae")
def saved_each_epoch(architecture):
    training = Training(architecture, SHARE)
    for _ in range(4):
        training.steps(3)
        torch.save(training.model.state_dict(), io.BytesIO())


@program("mlp")
def checkpointed(architecture):
    model = Mlp(256, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(8):
        x = torch.rand(512, 256)
        for layer in model.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        x.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("lstm")
def state_detached(architecture):
    training, state = Training(architecture, 0.05), None
    for _ in range(14):
        out, state = training.model(training.batch()[0], state)
        state = tuple(part.detach() for part in state)
        training.optimizer.zero_grad()
        out.square().mean().backward()
        training.optimizer.step()


@program("mlp")
def loaded(architecture):
    training = Training(architecture, SHARE)
    for _ in range(2):
        for batch in DataLoader(TensorDataset(torch.rand(2048, 512)), 256, shuffle=True):
            training.step(*batch)


@program("transformer")
def scalars_logged(architecture):
    training, losses = Training(architecture, SHARE), []
    for _ in range(14):
        losses.append(training.step().item())


@program("cnn")
def inference_only(architecture):
    model = architecture.model().eval()
    with torch.no_grad():
        for _ in range(12):
            model(*architecture.batch(4))


@program("splats")
def points_added(architecture):
    """Densification: more points, a new optimizer."""
    training = Training(architecture, 0.1)
    for _ in range(3):
        training.steps(5)
        model = training.model
        for name in ("means", "scales", "colors"):
            grown = torch.cat([getattr(model, name).data] * 2)
            setattr(model, name, torch.nn.Parameter(grown))
        training.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    training.steps(5)

"""Programs in which one thing fills the peak. expected.tsv lists it."""

from __future__ import annotations

import copy
import functools
import io
from collections import deque

import torch
from tests.causes.architectures import Block, LanguageModel, Mlp, Recommender, word_loss
from tests.causes.training import Training, program
from torch import nn
from torch.nn import functional

MIB_OF_FLOATS = 1 << 18


@program("mlp", "cnn", "unet", "transformer", "vit", "gnn", "diffusion", "moe", "gru", "vae")
def activations(architecture):
    Training(architecture, 2).steps(2)


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


def squared_distances(points, others):
    return (points[:, None, :] - others[None, :, :]).pow(2).sum(-1)


@program("gnn")
def pairwise_differences(_):
    model = Mlp(32, 2)
    points = torch.rand(800, 32)

    def nearest(model, points):
        near = model(points)
        return squared_distances(near, near).clamp(max=1).mean()

    train(model, [(points,) for _ in range(2)], nearest)


@program("splats")
def pairwise_weights(architecture):
    Training(architecture, 3).steps(2)


@program("mlp")
def one_hot_targets(_):
    model = Mlp(64, 2)

    def loss(model, x, classes):
        targets = functional.one_hot(classes, 20_000).sum(0)[:64].float()
        return (model(x) * targets).mean()

    train(model, [(torch.rand(512, 64), torch.randint(20_000, (512,))) for _ in range(2)], loss)


@program("gnn")
def one_hot_nodes(_):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Mlp(64, 2)

        def forward(self, x, kinds):
            kinds = functional.one_hot(kinds, 8000)[:, :64].float()
            return self.net(x + kinds)

    model = Net()
    batches = [(torch.rand(1000, 64), torch.randint(8000, (1000,))) for _ in range(2)]
    train(model, batches, mean_square)


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


@program("mlp", "transformer", "moe", "vit", wide=True)
def gradients_through_forward(architecture):
    """zero_grad between forward and backward: the old gradients stay live in every forward."""
    training = Training(architecture, 8)
    for _ in range(5):
        loss = training.loss()
        training.optimizer.zero_grad()
        loss.backward()
        training.optimizer.step()
        del loss


@program("mlp", "vit", wide=True)
def gradients_set_to_zero(architecture):
    training = Training(architecture, 8)
    for _ in range(5):
        training.optimizer.zero_grad(set_to_none=False)
        training.loss().backward()
        training.optimizer.step()


def follow(copied, model):
    with torch.no_grad():
        for mine, theirs in zip(copied.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs, 0.01)


@program("mlp", "vit", "moe", wide=True)
def copies_that_follow(architecture):
    training = Training(architecture)
    copies = [copy.deepcopy(training.model) for _ in range(3)]
    for _ in range(3):
        training.step()
        for copied in copies:
            follow(copied, training.model)


@program("transformer", wide=True)
def teacher(architecture):
    training = Training(architecture)
    teachers = [architecture.model().requires_grad_(False) for _ in range(3)]
    for _ in range(3):
        batch = training.batch()
        with torch.no_grad():
            wanted = sum(teacher(*batch) for teacher in teachers)
        training.optimizer.zero_grad()
        functional.mse_loss(training.model(*batch), wanted).backward()
        training.optimizer.step()


@program("transformer", "lstm", wide=True)
def snapshots_of_state(architecture):
    training, best = Training(architecture), []
    for step in range(4):
        training.step()
        if step < 3:
            state = training.model.state_dict()
            best.append({name: value.clone() for name, value in state.items()})


@program("mlp", "transformer", "lstm", wide=True)
def adam_state(architecture):
    training = Training(architecture, optimizer=functools.partial(torch.optim.Adam, foreach=False))
    training.steps(3)


@program("vit", "moe", wide=True)
def foreach_scratch(architecture):
    training = Training(architecture, optimizer=functools.partial(torch.optim.Rprop, foreach=True))
    training.steps(3)


def load(n):
    return torch.rand(n, 3, 256, 256)


@program("cnn", "vit", "unet")
def prefetched_batches(architecture):
    queue = deque(load(4) for _ in range(24))
    training = Training(architecture, 0.2)
    for _ in range(6):
        queue.append(load(4))
        training.loss(functional.avg_pool2d(queue.popleft(), 4)).backward()
        training.optimizer.step()
        training.optimizer.zero_grad()


@program("lstm", "mlp")
def batches_in_a_list(architecture):
    training = Training(architecture, 0.1)
    batches = [architecture.batch(60 * training.samples) for _ in range(8)]
    for batch in batches[:3]:
        training.step(*(part[: training.samples] for part in batch))


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

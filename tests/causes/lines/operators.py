"""The operators of one line fill the peak: pairs, one-hot vectors, buffers, concatenations."""

from __future__ import annotations

import torch
from tests.causes.architectures import Mlp
from tests.causes.lines.layers import mean_square, train
from tests.causes.models import GraphAttention, PointNet
from tests.causes.registry import program, standalone
from tests.causes.training import Training, step_of
from torch import nn
from torch.func import functional_call, jacrev
from torch.nn import functional


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


@standalone("held_out_pointnet")
def all_pairs_of_points(steps=12):
    model = PointNet()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        loss = functional.cross_entropy(model(torch.rand(4, 1024, 3)), torch.randint(10, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@standalone("held_out_gat")
def message_per_edge(steps=12):
    model = GraphAttention()
    optimizer = torch.optim.Adam(model.parameters())
    nodes, edges = torch.randn(2000, 32), torch.randint(2000, (2, 60_000))
    labels = torch.randint(8, (2000,))
    for _ in range(steps):
        loss = functional.cross_entropy(model(nodes, edges), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def load_table(rows=40_000, columns=200):
    return torch.rand(rows, columns, dtype=torch.float64)


@standalone("held_out_tabular")
def whole_table_in_memory(steps=16):
    table = load_table()
    model = nn.Sequential(nn.Linear(200, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        rows = table[step * 256 : (step + 1) * 256].float()
        loss = model(rows).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@standalone("perturbed")
def masks_of_each_member(rounds=4, members=48):
    """A random mask for each parameter and member, all kept until the round ends."""
    model = nn.Sequential(nn.Linear(300, 400), nn.Tanh(), nn.Linear(400, 50))
    with torch.no_grad():
        for _ in range(rounds):
            masks, scores = [], []
            for _ in range(members):
                mask = [torch.rand(p.shape).sub_(0.5) for p in model.parameters()]
                for p, m in zip(model.parameters(), mask, strict=True):
                    p.add_(m, alpha=0.01)
                scores.append(model(torch.randn(32, 300)).square().mean())
                for p, m in zip(model.parameters(), mask, strict=True):
                    p.sub_(m, alpha=0.01)
                masks.append(mask)
            best = int(torch.stack(scores).argmin())
            for p, m in zip(model.parameters(), masks[best], strict=True):
                p.add_(m, alpha=0.01)


@standalone("graph")
def pairwise_in_a_helper(steps=6):
    """One helper, called by the forward of one of several layers, allocates most of the peak."""

    def affinity(x):
        gap = (x[:, None] - x[None]).square()
        return torch.softmax(-gap.sum(-1), -1)

    class Affinity(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Linear(24, 24)

        def forward(self, x):
            return self.mix(affinity(x) @ x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.near = nn.Linear(8, 24), Affinity()
            self.middle, self.leave = nn.Linear(24, 24), nn.Linear(24, 8)

        def forward(self, x):
            return self.leave(torch.relu(self.middle(self.near(torch.relu(self.enter(x))))))

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        step_of(optimizer, model(torch.randn(500, 8)).square().mean())


@standalone("regression")
def loss_broadcast(steps=8):
    """Targets lack the last dimension, so the difference is a matrix of all pairs."""
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        x, y = torch.randn(1500, 16), torch.randn(1500)
        step_of(optimizer, ((model(x) - y) ** 2).mean())


class Causal(nn.Module):
    def __init__(self, width=32, longest=1024):
        super().__init__()
        self.both = nn.Linear(width, 2 * width)
        self.register_buffer("mask", torch.ones(longest, longest).tril())

    def forward(self, x):
        query, value = self.both(x).chunk(2, -1)
        mask = self.mask[: x.shape[1], : x.shape[1]]
        weights = (query @ x.transpose(1, 2)).masked_fill(mask == 0, -1e9).softmax(-1)
        return x + weights @ value


@standalone("causal")
def mask_in_each_layer(steps=8):
    model = nn.Sequential(*[Causal() for _ in range(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        step_of(optimizer, model(torch.randn(2, 64, 32)).square().mean())


@standalone("everyday")
def features_concatenated(batches=80):
    """torch.cat copies all earlier features at each batch."""
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU()).eval()
    features = torch.empty(0, 1024)
    with torch.no_grad():
        for _ in range(batches):
            features = torch.cat([features, model(torch.randn(64, 64))])


@standalone("everyday")
def column_minus_row(steps=8):
    """The prediction is [N, 1] and the target [N]: the difference is [N, N]."""
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(2048, 16), torch.randn(2048)
    for _ in range(steps):
        step_of(optimizer, (model(x) - y).square().mean())


@standalone("reported")
def jacobian_of_all_rows(steps=2):
    """pytorch/functorch#636: one backward for each of the 128 outputs, all at once."""
    model = nn.Sequential(nn.Conv2d(1, 6, 5), nn.Tanh(), nn.Conv2d(6, 16, 5), nn.Flatten())
    model.append(nn.Linear(16 * 20 * 20, 128))
    parameters = {name: each.detach() for name, each in model.named_parameters()}

    def outputs(x):
        return functional_call(model, parameters, (x[None],))[0]

    for _ in range(steps):
        jacrev(outputs)(torch.randn(1, 28, 28))


@standalone("reported")
def distances_of_all_pairs(steps=4):
    """pytorch/pytorch#57720: the line already is torch.cdist."""
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        a, b = model(torch.randn(2000, 8)), torch.randn(2000, 5)
        step_of(optimizer, torch.cdist(a, b, p=1).min(1).values.mean())


@standalone("reported")
def gradient_of_a_sparse_matrix(steps=4, n=2000):
    """pytorch/pytorch#41128: backward makes the gradient dense."""
    entries = torch.sparse_coo_tensor(torch.randint(0, n, (2, 8 * n)), torch.randn(8 * n), (n, n))
    adjacency = entries.coalesce().requires_grad_(True)
    features = nn.Parameter(torch.randn(n, 64))
    optimizer = torch.optim.SGD([features], 1e-3)
    for _ in range(steps):
        step_of(optimizer, torch.sparse.mm(adjacency, features).square().mean())

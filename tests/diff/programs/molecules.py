"""A graph network that predicts properties of molecules: rounds of messages along the edges."""

import torch
import torch.nn.functional as F
from torch import nn

NODES, EDGES, FEATURES, WIDTH, ROUNDS, GRAPHS, TARGETS = 384, 1536, 12, 48, 3, 16, 4


class Round(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(
            nn.Linear(2 * WIDTH, 2 * WIDTH),
            nn.SiLU(),
            nn.Linear(2 * WIDTH, WIDTH),
        )
        self.update = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, nodes, source, target):
        messages = self.message(torch.cat([nodes[source], nodes[target]], dim=1))
        received = torch.zeros_like(nodes).index_add(0, target, messages)
        return self.update(received, nodes)


class GraphNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(FEATURES, WIDTH)
        self.rounds = nn.ModuleList([Round() for _ in range(ROUNDS)])
        self.readout = nn.Linear(WIDTH, TARGETS)

    def forward(self, features, source, target, graph):
        nodes = self.embed(features)
        for each in self.rounds:
            nodes = each(nodes, source, target)
        pooled = torch.zeros(GRAPHS, WIDTH).index_add(0, graph, nodes)
        return self.readout(pooled)


def molecules(count):
    for _ in range(count):
        ends = torch.randint(NODES, (2, EDGES))
        graph = torch.arange(NODES) * GRAPHS // NODES
        yield torch.rand(NODES, FEATURES), ends[0], ends[1], graph, torch.rand(GRAPHS, TARGETS)


def train(steps=10):
    torch.manual_seed(0)
    model = GraphNetwork()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    errors = []
    for features, source, target, graph, wanted in molecules(steps):
        predicted = model(features, source, target, graph)
        loss = F.l1_loss(predicted, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    return errors


train()

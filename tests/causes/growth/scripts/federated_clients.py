"""Federated averaging; the server keeps the clients of all rounds with their optimizers."""

import copy

import torch
from torch import nn
from torch.nn import functional


class Client:
    def __init__(self, model):
        self.model = copy.deepcopy(model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def train(self, steps=3):
        for _ in range(steps):
            x, y = torch.rand(8, 1, 28, 28), torch.randint(10, (8,))
            loss = functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


class Server:
    def __init__(self):
        self.model = nn.Sequential(
            nn.Flatten(),
            nn.Linear(784, 256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )
        self.clients = {}

    def run_round(self, number, clients=3):
        losses = []
        for client in range(clients):
            self.clients[number, client] = Client(self.model)
            losses.append(self.clients[number, client].train())
        self.average([self.clients[number, client].model for client in range(clients)])
        return sum(losses) / len(losses)

    @torch.no_grad()
    def average(self, models):
        for target, *sources in zip(
            self.model.parameters(), *(m.parameters() for m in models), strict=True
        ):
            target.copy_(sum(sources) / len(sources))


def main(rounds=8):
    torch.manual_seed(0)
    server = Server()
    for number in range(rounds):
        print(number, server.run_round(number))


if __name__ == "__main__":
    main()

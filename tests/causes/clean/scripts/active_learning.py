"""Active learning: the labelled set grows, but only as indices into pictures that exist already."""

import torch
from torch import nn
from torch.nn import functional


class Learner:
    def __init__(self, pool, labels):
        self.pool, self.labels = pool, labels
        self.labelled = list(range(16))
        self.model = nn.Sequential(
            nn.Conv2d(1, 16, 5, 2),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Flatten(),
            nn.Linear(16 * 144, 10),
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def fit(self, steps):
        self.model.train()
        for _ in range(steps):
            index = torch.tensor(self.labelled)[torch.randint(len(self.labelled), (16,))]
            loss = functional.cross_entropy(self.model(self.pool[index]), self.labels[index])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def acquire(self, count):
        self.model.eval()
        scores = []
        for chunk in self.pool.split(32):
            p = self.model(chunk).softmax(1)
            scores.append(-(p * p.clamp(min=1e-9).log()).sum(1))
        order = torch.cat(scores).argsort(descending=True).tolist()
        known = set(self.labelled)
        self.labelled += [i for i in order if i not in known][:count]


def main(rounds=8):
    torch.manual_seed(0)
    learner = Learner(torch.rand(400, 1, 28, 28), torch.randint(10, (400,)))
    for number in range(rounds):
        print(number, learner.fit(6), len(learner.labelled))
        learner.acquire(24)


if __name__ == "__main__":
    main()

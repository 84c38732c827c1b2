"""A bidirectional GRU tagger with a big projection; gradients are set to zero in place."""

import torch
from torch import nn
from torch.nn import functional


class Tagger(nn.Module):
    def __init__(self, vocabulary=6000, dim=256, tags=24):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.gru = nn.GRU(dim, 384, num_layers=2, bidirectional=True, batch_first=True)
        self.project = nn.Sequential(nn.Linear(768, 1024), nn.Tanh(), nn.Linear(1024, tags))

    def forward(self, ids):
        return self.project(self.gru(self.embed(ids))[0])


def train_step(model, optimizer, ids, tags):
    optimizer.zero_grad(set_to_none=False)
    loss = functional.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    return loss.item()


def main(steps=10):
    torch.manual_seed(0)
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        length = 16 + step % 4
        ids, tags = torch.randint(6000, (8, length)), torch.randint(24, (8, length))
        print(step, train_step(model, optimizer, ids, tags))


if __name__ == "__main__":
    main()

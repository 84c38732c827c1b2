"""Matrix factorization; recall is computed by sorting the scores of all users and all items."""

import torch
from torch import nn
from torch.nn import functional


class Factorization(nn.Module):
    def __init__(self, users=1500, items=2000, dim=32):
        super().__init__()
        self.user, self.item = nn.Embedding(users, dim), nn.Embedding(items, dim)

    def forward(self, users, items):
        return (self.user(users) * self.item(items)).sum(1)


def bpr(model, users, good, bad):
    return -functional.logsigmoid(model(users, good) - model(users, bad)).mean()


@torch.no_grad()
def recall(model, held_out, k=20):
    scores = model.user.weight @ model.item.weight.T
    ranking = scores.argsort(dim=1, descending=True)
    return (ranking[:, :k] == held_out[:, None]).any(1).float().mean().item()


def main(epochs=3, steps=20):
    torch.manual_seed(0)
    model = Factorization()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    held_out = torch.randint(2000, (1500,))
    for epoch in range(epochs):
        for _ in range(steps):
            users = torch.randint(1500, (512,))
            loss = bpr(model, users, torch.randint(2000, (512,)), torch.randint(2000, (512,)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), recall(model, held_out))


if __name__ == "__main__":
    main()

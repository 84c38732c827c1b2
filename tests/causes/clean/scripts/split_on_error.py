"""Batches that are too large for the budget raise an error; they are split and tried again."""

import logging

import torch
from torch import nn
from torch.nn import functional

logger = logging.getLogger("split")


class TooLargeError(RuntimeError):
    """A batch needs more memory than the budget allows."""


class TreeNode:
    def __init__(self, word, children=()):
        self.word, self.children = word, children

    def size(self):
        return 1 + sum(child.size() for child in self.children)


def random_tree(depth, generator):
    word = int(torch.randint(1000, (), generator=generator))
    if depth == 0:
        return TreeNode(word)
    count = int(torch.randint(1, 3, (), generator=generator))
    return TreeNode(word, [random_tree(depth - 1, generator) for _ in range(count)])


class TreeLstm(nn.Module):
    """A child-sum LSTM over trees, node by node."""

    def __init__(self, words=1000, width=128, classes=5, budget=60):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.gates = nn.Linear(2 * width, 3 * width)
        self.forget = nn.Linear(2 * width, width)
        self.head = nn.Linear(width, classes)
        self.budget = budget

    def node(self, tree):
        x = self.embedding.weight[tree.word]
        children = [self.node(child) for child in tree.children]
        summed = sum((h for h, _ in children), torch.zeros_like(x))
        i, o, u = self.gates(torch.cat([x, summed])).chunk(3)
        cell = torch.sigmoid(i) * torch.tanh(u)
        for h, c in children:
            cell = cell + torch.sigmoid(self.forget(torch.cat([x, h]))) * c
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def forward(self, trees):
        states = []
        nodes = 0
        for tree in trees:
            states.append(self.node(tree)[0])
            nodes += tree.size()
            if nodes > self.budget:
                raise TooLargeError(f"{nodes} nodes, {self.budget} allowed")
        return self.head(torch.stack(states))


def backward_in_parts(model, trees, labels, total):
    """Accumulates the gradients of as many parts as are needed; returns loss and splits."""
    try:
        loss = functional.cross_entropy(model(trees), labels, reduction="sum") / total
    except TooLargeError:
        if len(trees) == 1:
            logger.warning("skipped a tree of %d nodes", trees[0].size())
            return 0.0, 0
        half = len(trees) // 2
    else:
        loss.backward()
        return loss.item(), 0
    first = backward_in_parts(model, trees[:half], labels[:half], total)
    second = backward_in_parts(model, trees[half:], labels[half:], total)
    return first[0] + second[0], first[1] + second[1] + 1


def main(epochs=2, batch=16):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(4)
    trees = [random_tree(3, generator) for _ in range(160)]
    labels = torch.tensor([tree.size() % 5 for tree in trees])
    model = TreeLstm()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    for epoch in range(epochs):
        total, splits = 0.0, 0
        for start in range(0, len(trees), batch):
            part = slice(start, start + batch)
            optimizer.zero_grad()
            loss, count = backward_in_parts(model, trees[part], labels[part], batch)
            optimizer.step()
            total, splits = total + loss, splits + count
        print(f"epoch {epoch}: loss {total / 10:.3f}, {splits} splits")


if __name__ == "__main__":
    main()

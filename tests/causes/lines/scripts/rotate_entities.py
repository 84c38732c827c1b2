"""Knowledge graph embeddings (RotatE) with self-adversarial negatives."""

import math

import torch
from torch import nn
from torch.nn import functional


class Triples:
    """Head, relation and tail; a few entities are in most of the triples."""

    def __init__(self, entities, relations, count=20_000):
        popularity = torch.rand(count, 2).pow(3)
        ends = (popularity * entities).long()
        self.data = torch.stack([ends[:, 0], torch.randint(relations, (count,)), ends[:, 1]], 1)
        self.entities = entities

    def batches(self, size, negatives):
        for part in self.data[torch.randperm(len(self.data))].split(size):
            yield part, torch.randint(self.entities, (len(part), negatives))

    def held_out(self, count):
        return self.data[:count]


class RotatE(nn.Module):
    def __init__(self, entities=300_000, relations=40, dimensions=32, margin=6.0):
        super().__init__()
        self.entities = nn.Embedding(entities, 2 * dimensions)
        self.relations = nn.Embedding(relations, dimensions)
        self.margin = margin
        bound = margin / dimensions
        nn.init.uniform_(self.entities.weight, -bound, bound)
        nn.init.uniform_(self.relations.weight, -math.pi, math.pi)

    def forward(self, heads, relations, tails):
        head_re, head_im = self.entities(heads).chunk(2, -1)
        tail_re, tail_im = self.entities(tails).chunk(2, -1)
        phase = self.relations(relations)
        real = head_re * phase.cos() - head_im * phase.sin() - tail_re
        imaginary = head_re * phase.sin() + head_im * phase.cos() - tail_im
        return self.margin - torch.stack([real, imaginary]).norm(dim=0).sum(-1)


def self_adversarial_loss(positive, negative, temperature=1.0):
    weights = (negative.detach() * temperature).softmax(1)
    loss = -functional.logsigmoid(positive)
    return (loss - (weights * functional.logsigmoid(-negative)).sum(1)).mean() / 2


@torch.no_grad()
def mean_rank(model, triples, candidates=200):
    chosen = torch.randint(triples.entities, (candidates,))
    test = triples.held_out(50)
    right = model(test[:, 0], test[:, 1], test[:, 2])
    others = model(test[:, :1], test[:, 1:2], chosen.expand(len(test), -1))
    return (others > right[:, None]).sum(1).float().mean().item() + 1


def main(epochs=1, every=10):
    torch.manual_seed(0)
    model = RotatE()
    triples = Triples(300_000, 40)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    for _ in range(epochs):
        for positives, negatives in triples.batches(1000, 8):
            heads, relations, tails = positives.unbind(1)
            positive = model(heads, relations, tails)
            negative = model(heads[:, None], relations[:, None], negatives)
            loss = self_adversarial_loss(positive, negative)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % every == 0:
                print(f"step {step}: {loss.item():.3f}, rank {mean_rank(model, triples):.1f}")


if __name__ == "__main__":
    main()

"""Preference tuning with a reference, an averaged and an initial copy of the policy."""

import copy

import torch
from torch import nn
from torch.nn import functional


class Policy(nn.Module):
    def __init__(self, vocabulary=300, dim=256, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 3 * dim, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.body(self.embed(ids), mask=mask, is_causal=True))


def log_probability(policy, ids):
    logits = policy(ids[:, :-1]).log_softmax(-1)
    return logits.gather(-1, ids[:, 1:, None]).sum((1, 2))


def main(steps=8, beta=0.1):
    torch.manual_seed(0)
    policy = Policy()
    initial = copy.deepcopy(policy).requires_grad_(False)
    reference = copy.deepcopy(policy).requires_grad_(False)
    averaged = copy.deepcopy(policy).requires_grad_(False)
    optimizer = torch.optim.SGD(policy.parameters(), lr=1e-3)
    for step in range(steps):
        good, bad = torch.randint(300, (2, 17)), torch.randint(300, (2, 17))
        with torch.no_grad():
            base = log_probability(reference, good) - log_probability(reference, bad)
        margin = log_probability(policy, good) - log_probability(policy, bad) - base
        loss = -functional.logsigmoid(beta * margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(averaged.parameters(), policy.parameters(), strict=True):
                a.lerp_(p, 0.01)
            drift = sum(
                (p - q).abs().sum()
                for p, q in zip(policy.parameters(), initial.parameters(), strict=True)
            )
        print(step, loss.item(), drift.item())


if __name__ == "__main__":
    main()

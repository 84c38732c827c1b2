"""Translation with two GRUs, additive attention and teacher forcing."""

import random

import torch
import torch.nn.functional as F
from torch import nn

VOCAB = 500
EMBED = 48
HIDDEN = 96
BATCH = 16
MAX_LEN = 24


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, EMBED)
        self.gru = nn.GRU(EMBED, HIDDEN, batch_first=True)

    def forward(self, source):
        return self.gru(self.embedding(source))


class BahdanauAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.energy = nn.Linear(HIDDEN, 1)

    def forward(self, hidden, outputs):
        energy = self.energy(torch.tanh(self.query(hidden).unsqueeze(1) + self.key(outputs)))
        weights = F.softmax(energy, dim=1)
        return (weights * outputs).sum(dim=1), weights


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, EMBED)
        self.attention = BahdanauAttention()
        self.cell = nn.GRUCell(EMBED + HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, VOCAB)

    def forward(self, token, hidden, outputs):
        context, weights = self.attention(hidden, outputs)
        hidden = self.cell(torch.cat([self.embedding(token), context], dim=1), hidden)
        return self.out(hidden), hidden, weights


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, source, target, teacher_forcing=0.5):
        outputs, hidden = self.encoder(source)
        hidden = hidden.squeeze(0)
        token = target[:, 0]
        logits = []
        for t in range(1, target.shape[1]):
            step_logits, hidden, _ = self.decoder(token, hidden, outputs)
            logits.append(step_logits)
            use_target = random.random() < teacher_forcing
            token = target[:, t] if use_target else step_logits.argmax(dim=1)
        return torch.stack(logits, dim=1)


def make_batch():
    length = 16
    source = torch.randint(1, VOCAB, (BATCH, length))
    target = torch.randint(1, VOCAB, (BATCH, length))
    return source, target


def train(num_steps=6):
    random.seed(0)
    torch.manual_seed(0)
    model = Seq2Seq()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    total_loss = 0
    for _ in range(num_steps):
        source, target = make_batch()
        logits = model(source, target)
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), target[:, 1:].reshape(-1), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        total_loss += loss.item()
    return total_loss / num_steps


if __name__ == "__main__":
    print(train())

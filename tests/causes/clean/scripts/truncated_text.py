"""A character model with a stateful GRU; the state is carried from chunk to chunk, detached."""

import torch
from torch import nn
from torch.nn import functional


class Corpus:
    def __init__(self, characters=60_000, symbols=64, streams=32):
        order = torch.randint(symbols, (characters,), generator=torch.Generator().manual_seed(0))
        self.streams = order.view(streams, -1)
        self.symbols = symbols

    def chunks(self, length):
        for start in range(0, self.streams.shape[1] - length - 1, length):
            part = self.streams[:, start : start + length + 1]
            yield part[:, :-1], part[:, 1:]


class CharacterModel(nn.Module):
    def __init__(self, symbols=64, width=128):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.cell = nn.GRUCell(width, width)
        self.head = nn.Linear(width, symbols)
        self.width = width

    def forward(self, tokens, state):
        outputs = []
        for x in self.embedding(tokens).unbind(1):
            state = self.cell(x, state)
            outputs.append(state)
        return self.head(torch.stack(outputs, 1)), state


class Journal:
    """Numbers only: losses, norms of gradients, the spread of the state."""

    def __init__(self):
        self.rows = []

    def add(self, loss, norm, state):
        self.rows.append((loss.item(), float(norm), state.detach().std().item()))

    def mean(self, last=20):
        rows = self.rows[-last:]
        return [sum(column) / len(rows) for column in zip(*rows, strict=False)]


@torch.no_grad()
def sample(model, length=100):
    token, state = torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, model.width)
    text = []
    for _ in range(length):
        logits, state = model(token, state)
        token = torch.multinomial(logits[:, -1].softmax(-1), 1)
        text.append(token.item())
    return text


def main(epochs=2, length=30):
    torch.manual_seed(0)
    corpus, model, journal = Corpus(), CharacterModel(), Journal()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        state = torch.zeros(32, model.width)
        for tokens, following in corpus.chunks(length):
            logits, state = model(tokens, state.detach())
            loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            journal.add(loss, norm, state)
        values = ", ".join(f"{value:.3f}" for value in journal.mean())
        print(f"epoch {epoch}: {values}; {len(set(sample(model)))} symbols used")


if __name__ == "__main__":
    main()

"""A curriculum for copying sequences: lengths grow with the epochs, and so do the activations."""

import torch
from torch import nn
from torch.nn import functional


class Curriculum:
    """Sequences of digits to be copied behind a separator; longer ones in later epochs."""

    def __init__(self, start=8, growth=4, symbols=10):
        self.start, self.growth, self.symbols = start, growth, symbols

    def batches(self, epoch, count, size):
        length = self.start + self.growth * epoch
        for _ in range(count):
            digits = torch.randint(self.symbols, (size, length))
            separator = torch.full((size, 1), self.symbols)
            tokens = torch.cat([digits, separator, digits], 1)
            mask = torch.arange(tokens.shape[1] - 1) >= length
            yield tokens, mask


class GatedConvolution(nn.Module):
    def __init__(self, width, kernel):
        super().__init__()
        self.kernel = kernel
        self.conv = nn.Conv1d(width, 2 * width, kernel)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        y = self.norm(x).transpose(1, 2)
        y = functional.glu(self.conv(functional.pad(y, (self.kernel - 1, 0))), 1)
        return x + y.transpose(1, 2)


class Copier(nn.Module):
    def __init__(self, symbols=11, width=64, depth=4):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.convs = nn.ModuleList(GatedConvolution(width, 9) for _ in range(depth))
        self.memory = nn.MultiheadAttention(width, 4, batch_first=True)
        self.head = nn.Linear(width, symbols)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for conv in self.convs:
            x = conv(x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        y, _ = self.memory(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)
        return self.head(x + y)


def copy_loss(model, tokens, mask):
    logits = model(tokens[:, :-1])[:, mask]
    return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:][:, mask].flatten())


def evaluate(model, curriculum, epoch):
    model.eval()
    with torch.no_grad():
        losses = [copy_loss(model, *batch).item() for batch in curriculum.batches(epoch, 2, 16)]
    model.train()
    return sum(losses) / len(losses)


def main(epochs=10, steps=6):
    torch.manual_seed(0)
    curriculum, model = Curriculum(), Copier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history = []
    for epoch in range(epochs):
        running = 0.0
        for tokens, mask in curriculum.batches(epoch, steps, 48):
            loss = copy_loss(model, tokens, mask)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        history.append((running / steps, evaluate(model, curriculum, epoch)))
        print(f"epoch {epoch}: training {history[-1][0]:.3f}, validation {history[-1][1]:.3f}")


if __name__ == "__main__":
    main()

"""A masked language model pretrained with ELECTRA-style sizes: narrow layers, many words."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

PAD, MASK, WORDS = 0, 1, 30522


class Sentences(Dataset):
    def __init__(self, count, length=64):
        generator = torch.Generator().manual_seed(count)
        self.tokens = torch.randint(2, WORDS, (count, length), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index]


def mask_tokens(tokens, rate=0.15):
    chosen = torch.rand(tokens.shape) < rate
    labels = tokens.masked_fill(~chosen, -100)
    inputs = tokens.masked_fill(chosen & (torch.rand(tokens.shape) < 0.8), MASK)
    return inputs, labels


class FourierMixing(nn.Module):
    """FNet: attention is replaced by the Fourier transform."""

    def forward(self, x):
        return torch.fft.fft2(x.float()).real


class EncoderLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = FourierMixing()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.intermediate = nn.Linear(width, 4 * width)
        self.output = nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.norm1(x + self.mix(x))
        return self.norm2(x + self.output(functional.gelu(self.intermediate(x))))


class FNet(nn.Module):
    def __init__(self, width=48, depth=2, length=64):
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.positions = nn.Embedding(length, width)
        self.layers = nn.ModuleList(EncoderLayer(width) for _ in range(depth))
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.decoder = nn.Linear(width, WORDS)
        self.decoder.weight = self.words.weight

    def forward(self, tokens):
        x = self.words(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.decoder(self.transform(x))


def masked_loss(logits, labels):
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def evaluate(model, loader):
    losses = []
    model.eval()
    with torch.inference_mode():
        for tokens in loader:
            inputs, labels = mask_tokens(tokens)
            losses.append(masked_loss(model(inputs), labels).item())
    model.train()
    return sum(losses) / len(losses)


def main(epochs=2):
    torch.manual_seed(0)
    train = DataLoader(Sentences(64), batch_size=8, shuffle=True)
    valid = DataLoader(Sentences(8), batch_size=4)
    model = FNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=8)
    for epoch in range(epochs):
        for tokens in train:
            inputs, labels = mask_tokens(tokens)
            loss = masked_loss(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            warmup.step()
        print(f"epoch {epoch}: {loss.item():.3f}, validation {evaluate(model, valid):.3f}")


if __name__ == "__main__":
    main()

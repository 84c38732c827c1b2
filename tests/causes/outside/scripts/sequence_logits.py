"""Evaluates perplexity of a small transformer: logits of all windows are concatenated first."""

import torch
from torch import nn
from torch.nn import functional


class TinyLM(nn.Module):
    def __init__(self, vocabulary=4096, dim=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 128, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.body(self.embed(ids), mask=mask, is_causal=True))


@torch.no_grad()
def perplexity(model, text, window=64):
    model.eval()
    logits = torch.cat([model(chunk[None]) for chunk in text.split(window)], 1)[0]
    model.train()
    return functional.cross_entropy(logits[:-1], text[1:]).exp().item()


def main(epochs=2, steps=6):
    torch.manual_seed(0)
    model = TinyLM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    test = torch.randint(4096, (4096,))
    for epoch in range(epochs):
        for _ in range(steps):
            ids = torch.randint(4096, (4, 65))
            loss = functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), perplexity(model, test))


if __name__ == "__main__":
    main()

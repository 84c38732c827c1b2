"""A recurrent translation decoder in bfloat16; the loss is computed in float32 over 24k words."""

import torch
from torch import nn
from torch.nn import functional


class Decoder(nn.Module):
    def __init__(self, vocabulary=24_000, dim=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.project = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, ids):
        return self.project(self.gru(self.embed(ids).float())[0].to(self.project.weight.dtype))


def smoothed_loss(logits, targets, smoothing=0.1):
    log_probs = functional.log_softmax(logits.float(), dim=-1)
    nll = -log_probs.gather(-1, targets[..., None]).squeeze(-1)
    smooth = -log_probs.mean(-1)
    return ((1 - smoothing) * nll + smoothing * smooth).mean()


def main(steps=5):
    torch.manual_seed(0)
    model = Decoder()
    model.embed.bfloat16()
    model.project.bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        ids = torch.randint(24_000, (8, 33))
        loss = smoothed_loss(model(ids[:, :-1]), ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

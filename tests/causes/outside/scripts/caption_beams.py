"""A captioner: short training, then beam search whose hypotheses carry their own caches."""

import dataclasses

import torch
from torch import nn
from torch.nn import functional


@dataclasses.dataclass
class Hypothesis:
    words: list
    score: float
    keys: list
    values: list


class Captioner(nn.Module):
    def __init__(self, words=300, width=512, depth=2):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.layers = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(depth))

    def forward(self, words, keys=None, values=None):
        x, made = self.embed(words), []
        for i, layer in enumerate(self.layers):
            q, k, v = layer(x).chunk(3, -1)
            made.append((k, v))
            if keys is not None:
                k, v = torch.cat([keys[i], k]), torch.cat([values[i], v])
            x = (
                x
                + functional.scaled_dot_product_attention(
                    q[None], k[None], v[None], is_causal=keys is None
                )[0]
            )
        return self.head(x), made


@torch.no_grad()
def beam_search(model, prompt, beams=8, length=50):
    logits, made = model(prompt)
    live = [Hypothesis(prompt.tolist(), 0.0, [k for k, _ in made], [v for _, v in made])]
    for _ in range(length):
        candidates = []
        for h in live:
            logits, made = model(torch.tensor(h.words[-1:]), h.keys, h.values)
            best = logits[-1].log_softmax(-1).topk(beams)
            for score, word in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                keys = [torch.cat([old, k]) for old, (k, _) in zip(h.keys, made, strict=True)]
                values = [torch.cat([old, v]) for old, (_, v) in zip(h.values, made, strict=True)]
                candidates.append(Hypothesis([*h.words, word], h.score + score, keys, values))
        live = sorted(candidates, key=lambda h: -h.score)[:beams]
    return live[0].words


def main(steps=16):
    torch.manual_seed(0)
    model = Captioner()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        words = torch.randint(300, (64,))
        loss = functional.cross_entropy(model(words[:-1])[0], words[1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(len(beam_search(model, torch.randint(300, (60,)))))


main()

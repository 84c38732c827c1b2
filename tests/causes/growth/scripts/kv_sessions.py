"""A tiny GPT answers requests; keys and values are kept by session for the next turn."""

import torch
from torch import nn
from torch.nn import functional

SESSIONS = {}


class CachedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, cache=None):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        return self.proj(y.transpose(1, 2).flatten(2)), (k, v)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = CachedAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, cache=None):
        y, cache = self.attention(self.n1(x), cache)
        x = x + y
        return x + self.mlp(self.n2(x)), cache


class GPT(nn.Module):
    def __init__(self, vocabulary=512, dim=128, depth=4):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(Layer(dim, 4) for _ in range(depth))
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids, caches=None):
        x, new = self.tokens(ids), []
        for i, layer in enumerate(self.layers):
            x, cache = layer(x, caches[i] if caches else None)
            new.append(cache)
        return self.head(x[:, -1]), new


@torch.inference_mode()
def answer(model, session, prompt, words=6):
    logits, caches = model(prompt, SESSIONS.get(session))
    reply = []
    for _ in range(words):
        token = logits.argmax(-1, keepdim=True)
        reply.append(token)
        logits, caches = model(token, caches)
    SESSIONS[session] = caches
    return torch.cat(reply, 1)


def main(requests=40):
    torch.manual_seed(0)
    model = GPT().eval()
    for request in range(requests):
        prompt = torch.randint(512, (2, 96))
        reply = answer(model, f"user-{request}", prompt)
        if request % 10 == 0:
            print(request, reply[0].tolist())


if __name__ == "__main__":
    main()

"""A server that tags sentences: requests of all lengths, a warm model, no training at all."""

import collections
import random
import time

import torch
from torch import nn


class HashEmbedding(nn.Module):
    """Words are hashed twice into small tables, as spaCy does."""

    def __init__(self, rows=20_000, width=96):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(2))
        self.rows = rows

    def forward(self, hashes):
        return self.tables[0](hashes % self.rows) + self.tables[1](hashes * 31 % self.rows)


class MaxoutWindow(nn.Module):
    def __init__(self, width, pieces=3):
        super().__init__()
        self.window = nn.Conv1d(width, width * pieces, 3, padding=1)
        self.norm = nn.LayerNorm(width)
        self.pieces = pieces

    def forward(self, x):
        y = self.window(x.transpose(1, 2)).unflatten(1, (-1, self.pieces)).amax(2)
        return self.norm(x + y.transpose(1, 2))


class Tagger(nn.Module):
    def __init__(self, width=96, depth=4, tags=50):
        super().__init__()
        self.embed = HashEmbedding(width=width)
        self.encode = nn.Sequential(*(MaxoutWindow(width) for _ in range(depth)))
        self.head = nn.Linear(width, tags)

    def forward(self, hashes):
        return self.head(self.encode(self.embed(hashes)))


class Batcher:
    """Collects requests until there are enough of them, padded to the longest."""

    def __init__(self, size):
        self.size = size
        self.waiting = []

    def add(self, request):
        self.waiting.append(request)
        if len(self.waiting) < self.size:
            return None
        ready, self.waiting = self.waiting, []
        longest = max(map(len, ready))
        padded = torch.zeros(len(ready), longest, dtype=torch.long)
        for row, words in zip(padded, ready, strict=False):
            row[: len(words)] = torch.tensor(words)
        return padded, list(map(len, ready))


class Service:
    def __init__(self, model, batch_size=32):
        self.model = model.eval()
        self.batcher = Batcher(batch_size)
        self.latencies = collections.deque(maxlen=50)
        self.counts = collections.Counter()

    @torch.inference_mode()
    def handle(self, request):
        batch = self.batcher.add(request)
        if batch is None:
            return []
        start = time.perf_counter()
        padded, lengths = batch
        tags = self.model(padded).argmax(-1)
        answers = [row[:length].tolist() for row, length in zip(tags, lengths, strict=False)]
        self.latencies.append(time.perf_counter() - start)
        self.counts.update(tag for answer in answers for tag in answer)
        return answers

    def statistics(self):
        ordered = sorted(self.latencies)
        return f"median {1e3 * ordered[len(ordered) // 2]:.1f} ms, {len(self.counts)} tags used"


def requests(count, seed=0):
    rng = random.Random(seed)
    for _ in range(count):
        length = min(int(rng.expovariate(1 / 40)) + 3, 400)
        yield [rng.randrange(1 << 31) for _ in range(length)]


def main(count=2560):
    torch.manual_seed(0)
    service = Service(Tagger())
    answered = 0
    for number, request in enumerate(requests(count), 1):
        answered += len(service.handle(request))
        if number % 640 == 0:
            print(f"{answered} of {number} requests answered, {service.statistics()}")


if __name__ == "__main__":
    main()

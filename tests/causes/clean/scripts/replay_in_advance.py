"""Prioritized replay of a fixed capacity, allocated in advance."""

import collections

import torch
from torch import nn


class PER:
    def __init__(self, capacity, shape):
        self.s = torch.zeros(capacity, *shape, dtype=torch.uint8)
        self.s2 = torch.zeros(capacity, *shape, dtype=torch.uint8)
        self.a = torch.zeros(capacity, dtype=torch.long)
        self.r = torch.zeros(capacity)
        self.p = torch.zeros(capacity)
        self.i = self.n = 0

    def add(self, s, a, r, s2):
        i = self.i
        self.s[i], self.a[i], self.r[i], self.s2[i] = s, a, r, s2
        self.p[i] = 1.0
        self.i = (i + 1) % len(self.p)
        self.n = min(self.n + 1, len(self.p))

    def sample(self, k):
        idx = torch.multinomial(self.p[: self.n], k, replacement=True)
        return idx, self.s[idx].float() / 255, self.a[idx], self.r[idx], self.s2[idx].float() / 255


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(4, 8, 8, 4),
            nn.ReLU(),
            nn.Conv2d(8, 16, 4, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 81, 6),
        )

    def forward(self, x):
        return self.f(x)


online, target = Q(), Q()
target.load_state_dict(online.state_dict())
opt = torch.optim.Adam(online.parameters(), 1e-4)
buf, nstep = PER(1500, (4, 84, 84)), collections.deque(maxlen=3)
s = torch.randint(0, 255, (4, 84, 84), dtype=torch.uint8)
for t in range(400):
    with torch.no_grad():
        a = int(online(s[None].float() / 255).argmax())
    s2 = torch.randint(0, 255, (4, 84, 84), dtype=torch.uint8)
    nstep.append((s, a, float(t % 3)))
    buf.add(nstep[0][0], nstep[0][1], sum(x[2] for x in nstep), s2)
    s = s2
    if t > 100 and t % 4 == 0:
        idx, bs, ba, br, bs2 = buf.sample(16)
        with torch.no_grad():
            y = br + 0.99 * target(bs2).max(1).values
        td = online(bs).gather(1, ba[:, None])[:, 0] - y
        opt.zero_grad()
        td.pow(2).mean().backward()
        opt.step()
        buf.p[idx] = td.detach().abs() + 1e-3
    if t % 100 == 0:
        target.load_state_dict(online.state_dict())

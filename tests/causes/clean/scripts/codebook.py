"""Vector quantization: the codebook is averaged in place, and dead codes are reset."""

import torch
from torch import nn
from torch.nn import functional


class Quantizer(nn.Module):
    def __init__(self, codes=1024, width=64):
        super().__init__()
        self.register_buffer("codes", torch.randn(codes, width))
        self.register_buffer("used", torch.ones(codes))

    def forward(self, z):
        flat = z.detach()
        index = torch.cdist(flat, self.codes).argmin(1)
        with torch.no_grad():
            counts = torch.bincount(index, minlength=len(self.codes)).float()
            sums = torch.zeros_like(self.codes).index_add_(0, index, flat)
            self.used.mul_(0.9).add_(counts, alpha=0.1)
            self.codes.lerp_(sums / counts.clamp_min(1)[:, None], 0.1)
            dead = self.used < 0.05
            self.codes[dead] = flat[torch.randint(len(flat), (int(dead.sum()),))]
        q = self.codes[index]
        return z + (q - z).detach(), functional.mse_loss(z, q)


def main(steps=40):
    torch.manual_seed(0)
    encode, decode, quantize = nn.Linear(256, 64), nn.Linear(64, 256), Quantizer()
    optimizer = torch.optim.Adam([*encode.parameters(), *decode.parameters()])
    for _ in range(steps):
        x = torch.randn(4096, 256)
        q, commitment = quantize(encode(x))
        loss = functional.mse_loss(decode(q), x) + 0.25 * commitment
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()

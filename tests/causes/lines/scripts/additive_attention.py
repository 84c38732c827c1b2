"""Speech synthesis with additive attention: a hidden vector for each pair of frame and letter."""

import torch
from torch import nn
from torch.nn import functional


class AdditiveAttention(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.query, self.key, self.energy = (
            nn.Linear(dim, dim),
            nn.Linear(dim, dim),
            nn.Linear(dim, 1),
        )

    def forward(self, queries, memory):
        pairs = torch.tanh(self.query(queries)[:, :, None] + self.key(memory)[:, None])
        return self.energy(pairs).squeeze(-1).softmax(-1) @ memory


class Synthesizer(nn.Module):
    def __init__(self, letters=40, mels=40, dim=96):
        super().__init__()
        self.embed = nn.Embedding(letters, dim)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(mels, dim, batch_first=True)
        self.attention = AdditiveAttention(dim)
        self.mels = nn.Linear(2 * dim, mels)

    def forward(self, text, previous):
        memory, _ = self.encoder(self.embed(text))
        states, _ = self.decoder(previous)
        return self.mels(torch.cat([states, self.attention(states, memory)], -1))


def main(steps=6):
    torch.manual_seed(0)
    model = Synthesizer()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        text, mels = torch.randint(40, (4, 80)), torch.randn(4, 201, 40)
        loss = functional.l1_loss(model(text, mels[:, :-1]), mels[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()

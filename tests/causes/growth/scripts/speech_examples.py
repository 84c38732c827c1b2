"""CTC speech recognition that keeps one utterance of a batch now and then, to print it later."""

import torch
from torch import nn
from torch.nn import functional


class Recognizer(nn.Module):
    def __init__(self, pieces=500, width=128):
        super().__init__()
        self.front = nn.Conv1d(80, width, 5, stride=2, padding=2)
        self.mix = nn.Conv1d(width, width, 5, padding=2, groups=8)
        self.head = nn.Linear(width, pieces)

    def forward(self, features):
        x = functional.relu(self.front(features))
        x = functional.relu(self.mix(x))
        return functional.log_softmax(self.head(x.transpose(1, 2)), -1)


def main(steps=40):
    torch.manual_seed(0)
    model = Recognizer()
    optimizer = torch.optim.Adam(model.parameters())
    examples = []
    for step in range(steps):
        features, text = torch.randn(16, 80, 320), torch.randint(1, 500, (16, 20))
        log_probs = model(features)
        loss = functional.ctc_loss(
            log_probs.transpose(0, 1), text, torch.full((16,), 160), torch.full((16,), 20)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            examples.append((step, log_probs[0].detach()))
    for step, example in examples[::10]:
        print(step, example.argmax(-1)[:8].tolist())


main()

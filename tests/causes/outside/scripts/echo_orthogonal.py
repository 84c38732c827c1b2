"""A reservoir network: a fixed orthogonal recurrence, a trained readout."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Reservoir(nn.Module):
    def __init__(self, inputs, units=1500, leak=0.3, radius=0.95):
        super().__init__()
        self.leak = leak
        self.register_buffer("input_weights", 0.5 * torch.randn(units, inputs))
        recurrent = torch.empty(units, units)
        nn.init.orthogonal_(recurrent)
        values = torch.linalg.eigvals(recurrent.double())
        recurrent *= radius / values.abs().max()
        self.register_buffer("recurrent", recurrent)

    @torch.no_grad()
    def forward(self, series):
        state = series.new_zeros(len(series), self.recurrent.shape[0])
        for x in series.unbind(1):
            new = torch.tanh(x @ self.input_weights.T + state @ self.recurrent.T)
            state = (1 - self.leak) * state + self.leak * new
        return state


class EchoState(nn.Module):
    def __init__(self, inputs=3, classes=4, units=1500):
        super().__init__()
        self.reservoir = Reservoir(inputs, units)
        self.readout = nn.Linear(units, classes)

    def forward(self, series):
        return self.readout(self.reservoir(series))


def lorenz(count, length=30, step=0.02):
    """Trajectories of the Lorenz system; the task is to find the parameter rho."""
    labels = torch.randint(4, (count,))
    rho = 14.0 + 8.0 * labels
    state = torch.randn(count, 3) + torch.tensor([1.0, 1.0, 20.0])
    points = []
    for _ in range(length):
        x, y, z = state.unbind(1)
        change = torch.stack([10 * (y - x), x * (rho - z) - y, x * y - 8 / 3 * z], 1)
        state = state + step * change
        points.append(state / 20)
    return TensorDataset(torch.stack(points, 1), labels)


class Metrics:
    def __init__(self):
        self.seen, self.right, self.loss = 0, 0, 0.0

    def update(self, logits, labels, loss):
        self.seen += len(labels)
        self.right += (logits.argmax(1) == labels).sum().item()
        self.loss += loss.item() * len(labels)

    def __str__(self):
        return f"loss {self.loss / self.seen:.3f}, accuracy {self.right / self.seen:.2f}"


def main(epochs=4):
    torch.manual_seed(0)
    train = DataLoader(lorenz(256), batch_size=16, shuffle=True)
    test = DataLoader(lorenz(64), batch_size=16)
    model = EchoState()
    optimizer = torch.optim.Adam(model.readout.parameters(), lr=1e-3)
    for epoch in range(epochs):
        training, testing = Metrics(), Metrics()
        for series, labels in train:
            logits = model(series)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.update(logits, labels, loss)
        with torch.no_grad():
            for series, labels in test:
                logits = model(series)
                testing.update(logits, labels, functional.cross_entropy(logits, labels))
        print(f"epoch {epoch}: training {training}; test {testing}")


if __name__ == "__main__":
    main()

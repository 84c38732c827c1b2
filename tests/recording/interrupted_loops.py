"""Training loops that signals interrupt at random times: python interrupted_loops.py KIND COUNT.

Handlers of SIGINT, SIGALRM and SIGUSR1 raise typical exceptions, which the loop catches. Prints one
line of JSON: the number of exceptions raised and of those caught, by type.
"""

import contextlib
import json
import os
import random
import signal
import sys
import threading
from collections import Counter

import torch
from torch import nn

import plimsoll
from plimsoll._torch import attachment

KINDS_OF_ERROR = (Exception, OSError, TimeoutError, RuntimeError, BaseException)
KINDS_OF_ERROR += (KeyboardInterrupt, SystemExit)
# Separate classes, so that an exception of torch or Plimsoll fails the program.
ERRORS = tuple(type(f"Sent{kind.__name__}", (kind,), {}) for kind in KINDS_OF_ERROR)
SIGNALS = (signal.SIGINT, signal.SIGALRM, signal.SIGUSR1)


class Signals:
    """Sends one signal at a time: the next one when the loop has caught the last error."""

    def __init__(self, count, dice):
        self.count, self.dice = count, dice
        self.raised, self.caught = Counter(), Counter()
        self.is_pending = False
        for number in SIGNALS:
            signal.signal(number, self.handle)

    def handle(self, number, frame):
        self.is_pending = False
        error = self.dice.choice(ERRORS)
        self.raised[error.__name__] += 1
        raise error(f"signal {number}")

    def send_soon(self):
        self.is_pending = True
        number = self.dice.choice(SIGNALS)
        seconds = self.dice.expovariate(200.0)
        if number == signal.SIGALRM:
            signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
        else:
            timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
            timer.daemon = True
            timer.start()

    def run(self, step):
        """Call `step` until every signal has arrived."""
        while True:
            try:
                while self.raised.total() < self.count or self.is_pending:
                    if not self.is_pending:
                        self.send_soon()
                    step()
                return
            except ERRORS as error:
                self.caught[type(error).__name__] += 1
                torch.set_grad_enabled(True)  # torch's optimizers leave it off if interrupted


def training(batch=16):
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())
    data = torch.randn(batch, 32)

    def step():
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


@contextlib.contextmanager
def recorded(folder, adapter):
    _, step = training()
    with plimsoll.record(f"{folder}/run.plim", adapter=adapter, mode="full"):
        yield step


@contextlib.contextmanager
def surveyed(folder):
    """Each step searches the whole heap for objects."""
    _, step = training()
    heap = [[i] for i in range(100_000)]
    with plimsoll.record(f"{folder}/run.plim", adapter="libtorch"):

        def survey():
            step()
            attachment.attached().survey()

        yield survey
    del heap


@contextlib.contextmanager
def monitored(folder, adapter):
    """With features implemented in Python: a text log, callbacks, regions."""
    _, step = training()
    options = {"interval": 1, "output_dir": folder, "profile_tensors": True, "adapter": adapter}
    monitor = plimsoll.TrainingMonitor(**options, alert_above=["1B"])
    writer = Writer()
    with monitor, open(f"{folder}/memory.log", "w") as log:

        def watched():
            with plimsoll.region("step"), plimsoll.track_memory("step"):
                loss = step()
            monitor.step(loss=loss)
            plimsoll.log_tensor_memory_breakdown(writer, 1, interval=1, log_file=log)
            plimsoll.step()

        yield watched


class Writer:
    def add_scalar(self, tag, value, step):
        str((tag, value, step))


@contextlib.contextmanager
def traced(folder):
    """Blocks begin and end in the loop, and hooks with them."""
    model, step = training()
    tracer = plimsoll.MemoryTracer(max_events=1000)

    def block():
        with tracer.trace(model):
            step()

    yield block


KINDS = {
    "record": lambda folder: recorded(folder, "libtorch"),
    "fallback": lambda folder: recorded(folder, "python"),
    "survey": surveyed,
    "monitor": lambda folder: monitored(folder, "libtorch"),
    "monitor-fallback": lambda folder: monitored(folder, "python"),
    "tracer": traced,
}


def main():
    kind, folder, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    signals = Signals(count, random.Random(seed))
    with KINDS[kind](folder) as step:
        for _ in range(3):
            step()  # imported before the signals: Python's importer takes an OSError for its own
        signals.run(step)
        step()
    assert attachment.attached() is None or kind.startswith("monitor")
    print()
    json.dump({"raised": signals.raised, "caught": signals.caught}, sys.stdout)


if __name__ == "__main__":
    main()

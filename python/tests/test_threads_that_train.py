"""Recordings and monitors start and stop while other threads train."""

import subprocess
import sys

import pytest

import plimsoll

PROGRAM = """
import sys, threading, torch, plimsoll
torch.set_num_threads(1)
folder, watched, trained = sys.argv[1:]
is_over = threading.Event()

def train_module():
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(30)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while not is_over.is_set():
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()

def train_tensors():
    weights = [torch.randn(8, 8, requires_grad=True) for _ in range(30)]
    while not is_over.is_set():
        y = torch.randn(4, 8)
        for weight in weights:
            y = (y @ weight).tanh()
        y.sum().backward()
        for weight in weights:
            weight.data -= 0.01 * weight.grad
            weight.grad = None

target = {"module": train_module, "tensors": train_tensors}[trained]
threads = [threading.Thread(target=target) for _ in range(2)]
for thread in threads:
    thread.start()
if watched == "monitor":
    monitor = plimsoll.TrainingMonitor(output_dir=folder, interval=1)
    for _ in range(60):
        monitor.step()
        is_over.wait(0.02)
    monitor.close()
else:
    adapter = "python" if watched == "fallback" else "libtorch"
    for number in range(50):
        mode = ("full", "lite")[number % 2] if adapter == "libtorch" else "full"
        with plimsoll.record(f"{folder}/{number}.plim", mode=mode, adapter=adapter):
            is_over.wait(0.02)
is_over.set()
for thread in threads:
    thread.join()
print("over")
"""


@pytest.mark.slow
@pytest.mark.parametrize("trained", ["module", "tensors"])
@pytest.mark.parametrize("watched", ["recordings", "monitor", "fallback"])
def test_threads_train_on(watched, trained, tmp_path):
    words = [sys.executable, "-X", "faulthandler", "-c", PROGRAM, tmp_path, watched, trained]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == "over\n"


GRADIENT = """
import sys, threading, time, torch, plimsoll
weight = torch.randn(1000, 1000, requires_grad=True)
weight.sum().backward()
model = torch.nn.Linear(1, 1)
model.weight = torch.nn.Parameter(weight.detach())
model.weight.grad = weight.grad
is_over, works, ends = threading.Event(), [], []

def work():  # calls no other Python function, not even that of an event
    works.append(True)
    while not ends:
        sum(range(1000))

target = work if sys.argv[2] == "works" else is_over.wait
thread = threading.Thread(target=target)
thread.start()
while target is work and not works:
    time.sleep(0.001)
with plimsoll.record(sys.argv[1], adapter="libtorch"):
    torch.ones(3)
ends.append(True)
is_over.set()
thread.join()
"""


@pytest.mark.parametrize(("other", "category"), [("waits", "gradient"), ("works", "unknown")])
@pytest.mark.slow
def test_an_earlier_gradient_is_known_while_other_threads_wait(other, category, tmp_path):
    path = tmp_path / "run.plim"
    subprocess.run([sys.executable, "-c", GRADIENT, path, other], check=True)
    rows = {row["key"]: row["bytes"] for row in plimsoll.open(path).tables["by_category"]}
    assert rows.get(category, 0) >= 4_000_000, rows

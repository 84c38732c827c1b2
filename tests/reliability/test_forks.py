"""A forked child never waits for a lock that a thread of its parent held."""

import subprocess
import sys

PROGRAM = """
import os, signal, sys, threading
import torch, plimsoll
import torch._dynamo
import plimsoll._torch.attachment, plimsoll._cuda.cuda_hooks, plimsoll._estimation.estimate
import plimsoll._monitoring.live, plimsoll._monitoring.watch
kinds = (type(threading.Lock()), type(threading.RLock()))
recording = plimsoll.record("run.plim", adapter="none").start()
tracer = plimsoll.MemoryTracer()
owners = [module for name, module in sys.modules.items() if name.startswith("plimsoll.")]
owners += [recording, tracer]

def locks():
    return [(owner, name) for owner in owners for name, value in vars(owner).items()
            if isinstance(value, kinds)]

held, done = threading.Event(), threading.Event()
def hold():
    for owner, name in locks():
        assert getattr(owner, name).acquire(timeout=120), (owner, name)
    held.set()
    done.wait()
    for owner, name in locks():
        getattr(owner, name).release()
threading.Thread(target=hold, daemon=True).start()
assert held.wait(120)
child = os.fork()
if child == 0:
    signal.alarm(120)
    free = [(owner, name) for owner, name in locks()
            if getattr(owner, name).acquire(blocking=False)]
    print(len(free), [name for _, name in locks() if (_, name) not in free])
    for owner, name in free:
        getattr(owner, name).release()
    recording.stop()
    tracer.get_layer_stats()
    plimsoll.stop_monitoring()
    with plimsoll.region("part"):
        plimsoll.step()
    sys.exit(7)  # with what is registered to run then
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set()
assert status == 7, status
"""


def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    # A recording belongs to the parent: the child never takes its lock.
    count, held = ran.stdout.split(" ", 1)
    assert int(count) >= 4
    assert held == "['_stop_lock']\n"

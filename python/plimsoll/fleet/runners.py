"""Where recordings are read: in processes of this machine, or as tasks of a Ray cluster.

A runner takes paths and yields their parts in any order, each path exactly once, even if a process
dies.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from plimsoll._process.packages import needed
from plimsoll.fleet.partial import Part, RunOptions, partial

Runner = Callable[[Sequence[str], RunOptions], Iterator[Part]]

# Not multiprocessing: its processes would run the caller's script again.
WORKER = ("-m", "plimsoll.fleet.worker")


def serial(paths: Sequence[str], options: RunOptions) -> Iterator[Part]:
    """Read one recording after the other in this process."""
    for path in paths:
        yield partial(path, options)


def processes(paths: Sequence[str], options: RunOptions) -> Iterator[Part]:
    """Read recordings in as many processes as the machine has cores.

    If a process dies, the recording that it read is named, and another process reads the rest.
    """
    if len(paths) == 1:
        yield from serial(paths, options)
        return
    waiting: SimpleQueue[str] = SimpleQueue()
    for path in paths:
        waiting.put(path)
    done: SimpleQueue[Part] = SimpleQueue()
    workers = [
        _Worker(waiting, done, options)
        for _ in range(min(len(paths), len(os.sched_getaffinity(0))))
    ]
    try:
        for _ in paths:
            yield done.get()
    finally:  # also after Ctrl-C: do not wait for the rest
        for worker in workers:
            worker.end()


class _Worker:
    """A process that reads recordings, and the thread that gives them to it."""

    def __init__(
        self, waiting: SimpleQueue[str], done: SimpleQueue[Part], options: RunOptions
    ) -> None:
        self._waiting = waiting
        self._done = done
        self._options = options
        self._is_ended = False
        self._start()
        threading.Thread(target=self._serve, daemon=True).start()

    def _start(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([sys.executable, *WORKER], stdin=pipe, stdout=pipe)

    def _serve(self) -> None:
        while not self._is_ended:
            try:
                path = self._waiting.get_nowait()
            except Empty:
                return
            self._done.put(self._read(path))

    def _read(self, path: str) -> Part:
        requests, answers = self._process.stdin, self._process.stdout
        try:
            assert requests is not None
            assert answers is not None
            pickle.dump((path, self._options), requests)
            requests.flush()
            part: Part = pickle.load(answers)
            return part
        except (EOFError, OSError, pickle.UnpicklingError):
            self._process.kill()
            self._process.wait()
            if not self._is_ended:
                self._start()
            return Part(path, problem=f"{path}: the process that read it was killed")

    def end(self) -> None:
        """End the process."""
        self._is_ended = True
        self._process.kill()
        self._process.wait()


def on_ray(address: str) -> Runner:
    """Return a runner that reads each recording in a task of a Ray cluster.

    The tasks must reach the recordings: on a file system that the nodes share, or an object store.
    A task whose node dies runs again on another one.
    """

    def run(paths: Sequence[str], options: RunOptions) -> Iterator[Part]:
        ray: Any = needed("ray")
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        task = ray.remote(num_cpus=1, max_retries=3)(partial)
        waiting = {task.remote(path, options): path for path in paths}
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1)
            for each in done:
                path = waiting.pop(each)
                try:
                    yield ray.get(each)
                except ray.exceptions.RayError as error:
                    reason = str(error).strip().split("\n")[0]
                    yield Part(path, problem=f"{path}: its Ray task failed: {reason}")

    return run

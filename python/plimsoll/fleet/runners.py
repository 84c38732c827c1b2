"""Where recordings are read: in processes of this machine, or as tasks of a Ray cluster.

A runner takes paths and yields their parts in any order, each path once, whatever dies meanwhile.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from plimsoll._process.packages import needed
from plimsoll.fleet.partial import Part, RunOptions, partial

Runner = Callable[[Sequence[str], RunOptions], Iterator[Part]]


def serial(paths: Sequence[str], options: RunOptions) -> Iterator[Part]:
    """Read one recording after the other in this process."""
    for path in paths:
        yield partial(path, options)


def processes(paths: Sequence[str], options: RunOptions) -> Iterator[Part]:
    """Read recordings in as many processes as the machine has cores.

    If a process is killed, what was lost is read again, each recording in a process of its own, so
    that the one that kills its process is named.
    """
    if len(paths) == 1:
        yield from serial(paths, options)
        return
    lost = list(paths)
    workers = min(len(paths), len(os.sched_getaffinity(0)))
    try:
        for part in _pooled(paths, options, workers):
            lost.remove(part.path)
            yield part
    except BrokenProcessPool:
        for path in lost:
            try:
                yield from _pooled([path], options, 1)
            except BrokenProcessPool:
                yield Part(path, problem=f"{path}: the process that read it was killed")


def _pooled(paths: Sequence[str], options: RunOptions, workers: int) -> Iterator[Part]:
    fresh = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    with ProcessPoolExecutor(workers, fresh) as pool:
        tasks = [pool.submit(partial, path, options) for path in paths]
        try:
            for task in as_completed(tasks):
                yield task.result()
        except BaseException:  # also Ctrl-C: do not wait for the rest
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def on_ray(address: str) -> Runner:
    """Return a runner that reads each recording in a task of a Ray cluster.

    The tasks must reach the recordings: on a file system that the nodes share, or an object store.
    A task whose node dies runs again on another one.
    """

    def run(paths: Sequence[str], options: RunOptions) -> Iterator[Part]:
        ray: Any = needed("ray", "ray")
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

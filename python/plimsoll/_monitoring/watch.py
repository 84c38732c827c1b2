"""The process's watch: what monitors and samples ask. It begins with the first of them."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from plimsoll import _record
from plimsoll._monitoring import live
from plimsoll._process.messages import print_notice
from plimsoll._torch import attachment
from plimsoll._torch.hooks import Adapter, Mode
from plimsoll.errors import AdapterError

_lock = threading.RLock()
_mode: Mode | None = None  # what is attached for the watch; None: it does not run
_pid = 0
_OWNER = "watch"  # of what is attached


def watch(mode: Mode = "watch", adapter: Adapter = "auto") -> None:
    """Watches from now on, until `stop_monitoring` or the end of the process.

    The second and later calls do nothing, unless they ask for more than the first one did.

    Raises:
        AdapterError: `adapter` is ``"libtorch"`` and it is not to be had.
    """
    global _mode
    _take_rank()
    with _lock:
        if _pid != os.getpid():
            _mode = None  # the child of a fork, in which nothing runs
        if _mode is not None and mode in (_mode, "watch"):
            return
        kind = attachment.prepare(adapter, print_notice, print_notice)
        before = _mode
        try:
            _begin(kind, mode)
        except BaseException:
            if before is None:
                _end()
            raise


def _begin(kind: Adapter, mode: Mode) -> None:
    global _mode, _pid
    is_new = _mode is None
    # Set first: a failure below is reported once, and the next monitor does not try again.
    _mode, _pid = mode, os.getpid()
    if is_new:
        _record.start_watching()
        atexit.register(stop_monitoring)
    try:
        if is_new:
            attachment.attach(_OWNER, kind, mode, stacks=False)
        else:
            attachment.want_more(_OWNER, mode)
    except AdapterError as error:
        print_notice(f"{error}: tensors are not recorded")
        if is_new:
            attachment.attach(_OWNER, "none", mode, stacks=False)
    if is_new:
        live.begin(_OWNER)


def stop_monitoring() -> None:
    """Ends what the monitors of this process began: no hook and no thread is left of them."""
    with _lock:
        if _mode is None or _pid != os.getpid():
            return
        try:
            _end()
        except BaseException:  # of a signal's handler: it waits until nothing is left
            _end()
            raise


def _end() -> None:
    global _mode
    atexit.unregister(stop_monitoring)
    live.end(_OWNER)
    _record.stop_watching()
    attachment.detach(_OWNER)
    _mode = None


def _take_rank() -> None:
    """From torch.distributed where it is in use: not every launcher sets RANK."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    _record.set_process_rank(distributed.get_rank(), distributed.get_world_size())


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)

"""The hooks that monitors and samples share. The first monitor or sample installs them."""

from __future__ import annotations

import atexit
import os
import sys
import threading

from plimsoll import _record
from plimsoll._monitoring import live
from plimsoll._process.messages import print_notice
from plimsoll._torch import attachment
from plimsoll._torch.hooks import Adapter, Mode, Uses
from plimsoll.errors import AdapterError

_lock = threading.RLock()
_mode: Mode | None = None  # the attached hooks; None: the watch does not run
_uses: set[Uses] = {"never"}  # what the monitors have asked for
_pid = 0
_OWNER = "watch"  # identifies the watch among the users of the hooks


def watch(
    mode: Mode = "watch", adapter: Adapter = "auto", *, waits: bool = False, uses: Uses = "never"
) -> None:
    """Install the hooks of monitoring, until `stop_monitoring` or the end of the process.

    Later calls do nothing, unless they need more than the first one did, or the adapter has been
    compiled since.

    Args:
        mode: How much is observed.
        adapter: The user's choice. ``"libtorch"`` waits until it is compiled.
        waits: Whether to wait for that in any case, because figures without it are not exact.
        uses: In which steps last uses are observed; this needs the mode ``"full"``.

    Raises:
        AdapterError: `adapter` is ``"libtorch"`` and it is unavailable.
    """
    global _mode
    waits = waits or adapter == "libtorch"
    mode = mode if uses == "never" else "full"
    _take_rank()
    with _lock:
        if _pid != os.getpid():
            _mode = None  # in a forked child, nothing runs yet
        if _mode is not None and not waits:
            attachment.switch_if_ready(print_notice)
        if _has(mode, uses) and not waits:
            return
        kind = attachment.prepare(adapter, print_notice, waits=waits)
        if _has(mode, uses):
            return
        before = _mode
        try:
            _begin(kind, mode, uses)
        except BaseException:
            if before is None:
                _end()
            raise


def _has(mode: Mode, uses: Uses) -> bool:
    return _mode is not None and mode in (_mode, "watch") and uses in _uses


def _begin(kind: Adapter, mode: Mode, uses: Uses) -> None:
    global _mode, _pid
    is_new = _mode is None
    if is_new:
        _uses.intersection_update({"never"})
    _uses.add(uses)
    # Set first, so that a failure below is reported once and the next monitor does not try again.
    _mode, _pid = mode, os.getpid()
    if is_new:
        _record.start_watching()
        atexit.register(stop_monitoring)
    try:
        if is_new:
            attachment.attach(_OWNER, kind, mode, stacks=False, uses=uses)
        else:
            attachment.request_mode(_OWNER, mode, uses)
    except AdapterError as error:
        print_notice(f"{error}: tensors are not recorded")
        if is_new:
            attachment.attach(_OWNER, "none", mode, stacks=False)
    if is_new:
        live.begin(_OWNER)


def stop_monitoring() -> None:
    """End monitoring in this process, and remove all its hooks and threads."""
    with _lock:
        if _mode is None or _pid != os.getpid():
            return
        try:
            _end()
        except BaseException:  # from a signal handler: raised after everything is removed
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
    """Get the rank from torch.distributed if it is in use, since some launchers set no RANK."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    _record.set_process_rank(distributed.get_rank(), distributed.get_world_size())


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)

"""The storages that the fallback records: each reports its free when it dies.

The callbacks of weak references are compiled code, because Python drops an exception that a signal
handler raises in a Python callback.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from plimsoll import _record

HeldStorage: TypeAlias = tuple[Any, int, int]
"""A storage, the recorder's number of its device, and its address when it was last seen."""


class _Watched(NamedTuple):
    reference: weakref.ref[Any]
    device: int  # of the recorder
    address: int


class WatchedStorages:
    """Storages whose memory the recorder knows, by their handles."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}

    def __contains__(self, storage: Any) -> bool:
        return storage._cdata in self._watched

    def watch(self, storage: Any, address: int) -> int:
        """Report the free of a storage when it dies; return the recorder's number of its device."""
        handle = storage._cdata
        known = self._watched.get(handle)
        if known is not None and known.address == address:
            return known.device
        if known is not None:  # it was resized
            _record.free(known.device, known.address)
        device = _record.device(storage.device.type, storage.device.index or 0)
        died = partial(_record.storage_died, self._watched, handle, device, address)
        self._watched[handle] = _Watched(weakref.ref(storage, died), device, address)
        return device

    def clear(self) -> None:
        """Report nothing more."""
        self._watched.clear()

    def take(self) -> list[HeldStorage]:
        """Report nothing more; return the storages, which live at least as long as the list."""
        watched = list(self._watched.values())
        held = [(reference(), device, address) for reference, device, address in watched]
        self._watched.clear()
        return [each for each in held if each[0] is not None]

    def take_back(self, held: list[HeldStorage]) -> None:
        """Undo `take`."""
        for storage, _, address in held:
            self.watch(storage, address)

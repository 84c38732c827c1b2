"""The live tensors, modules and optimizers of this process, mostly without a walk of all objects.

The first call walks every object that the garbage collector tracks, which takes tens of
milliseconds. A later call takes what the earlier ones found and is still live, and searches the
collector's two young generations. Every newer object is there, unless a collection of an older
generation has run or the program has frozen objects: then all are walked again.
"""

from __future__ import annotations

import gc
import sys
import sysconfig
import weakref
from typing import Any, NamedTuple


class _Found(NamedTuple):
    epoch: tuple[int, ...]
    objects: list[weakref.ref[Any]]


# Written as one, so that threads that survey together leave one call's pair or the other's.
_found: _Found | None = None

_HAS_GENERATIONS = sys.version_info < (3, 14) and not sysconfig.get_config_var("Py_GIL_DISABLED")


def live_objects() -> list[Any]:
    """All tensors, modules and optimizers that Python holds; needs torch to be imported."""
    global _found
    known = _found
    epoch = _epoch()
    if known is not None and known.epoch == epoch and _HAS_GENERATIONS:
        objects = [each for reference in known.objects if (each := reference()) is not None]
        young = gc.get_objects(generation=0) + gc.get_objects(generation=1)
        if _epoch() == epoch:
            seen = set(map(id, objects))
            objects += [each for each in _relevant(young) if id(each) not in seen]
            _found = _Found(epoch, [weakref.ref(each) for each in objects])
            return objects
    epoch = _epoch()
    objects = _relevant(gc.get_objects())
    _found = _Found(epoch, [weakref.ref(each) for each in objects])
    return objects


def _epoch() -> tuple[int, ...]:
    """Changes when an object may have left the young generations."""
    _, middle, old = gc.get_stats()[:3]
    return middle["collections"], old["collections"], gc.get_freeze_count()


class _Kinds(dict[type, bool]):
    """Whether the objects of a type are looked for."""

    def __missing__(self, kind: type) -> bool:
        torch: Any = sys.modules["torch"]
        wanted = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer)
        self[kind] = any(issubclass(kind, each) for each in wanted)
        return self[kind]


def _relevant(objects: list[Any]) -> list[Any]:
    kinds = _Kinds()
    return [each for each in objects if kinds[type(each)]]

"""The walk that finds what holds memory: planted holders, and the edits that end them."""

import gc
import re
import sys
import types

import holder_plants
import pytest
import torch
from holder_plants import PLANTS

from plimsoll._torch.adapter import load

(
    MODULE,
    FRAME,
    EXCEPTION,
    NATIVE,
    CYCLE,
    ATTRIBUTE,
    ITEM,
    LOCAL,
    CLOSURE,
    DEFAULT,
    GRAD_FN,
    NODE,
    SAVED,
    HOOK,
    GRADIENT,
    BASE,
    TRACEBACK,
    OTHER,
) = range(18)
COMPLETE, TOO_MANY_OBJECTS, TOO_MANY_NODES, NO_MEMORY, TOO_LATE = range(5)


def found(*limits):
    return load(print).holders_as_python(*limits)


def text_of(links, number):
    """The chain up to a link, as a reader would write it."""
    text = ""
    while number:
        parent, kind, name, type_, *_ = links[number - 1]
        text = _text_of_link(kind, name, type_) + text
        number = parent
    return text


def _text_of_link(kind, name, type_):
    return {
        MODULE: name,
        FRAME: f"{name}()",
        EXCEPTION: name or "exception",
        NATIVE: f"native {name or type_}",
        CYCLE: f"cycle {type_}",
        ATTRIBUTE: f".{name}",
        ITEM: f"[{name or '*'}]",
        LOCAL: f" local {name}",
        CLOSURE: f" closure {name}",
        DEFAULT: f" default {name}",
        GRAD_FN: f" → {type_}",
        NODE: f" → {type_}",
        SAVED: f" saved {name}",
        HOOK: f" hook {name}",
        GRADIENT: ".grad",
        BASE: " base",
        TRACEBACK: f" traceback {name.rpartition('.')[2]}",
        OTHER: f" → {type_}",
    }[kind]


class Live:
    """The live memory that the recorder has seen."""

    def __init__(self, recorder):
        self._recorder = recorder
        self.bytes = {}

    def update(self):
        """Return the bytes that were freed since the last call."""
        freed = 0
        for event in self._recorder.take():
            if event["kind"] in ("alloc", "adopt"):
                self.bytes[event["address"]] = event["size"]
            elif event["kind"] == "free":
                freed += self.bytes.pop(event["address"], 0)
        return freed


@pytest.fixture
def space():
    module = sys.modules["plant"] = types.ModuleType("plant")
    yield module
    module.__dict__.clear()
    del sys.modules["plant"]
    sys.modules.pop("plant_metrics", None)
    gc.enable()
    gc.collect()


def chains_of(result, live):
    """Bytes by the text of the chain that holds them."""
    chains = {}
    for address, _, link in result["held"]:
        if address in live:
            text = text_of(result["links"], link)
            chains[text] = chains.get(text, 0) + live[address]
    return chains


def cut_of(result, pattern):
    for link, *cut in result["cuts"]:
        if re.fullmatch(pattern, text_of(result["links"], link)):
            return cut
    return None


def explained(result, live):
    lines = [f"{size:9,}  {text}" for text, size in chains_of(result, live).items()]
    lines += [
        f"cut {text_of(result['links'], link)}: frees {freed:,}, leaves {left:,}; "
        f"other {text_of(result['links'], other)}, native {native}"
        for link, other, _, freed, _, left, native in result["cuts"]
    ]
    return "\n".join([f"end {result['end']}, {result['objects']} objects", *lines])


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_plants(recorder, space, plant):
    gc.collect()
    recorder.forget()
    gc.disable()
    live = Live(recorder)
    edit = plant.make(space)
    live.update()
    result = found()
    chains = chains_of(result, live.bytes)
    text = explained(result, live.bytes)
    assert result["end"] == COMPLETE
    assert chains, text
    widest = max(chains, key=chains.get)
    assert re.match(plant.chain, widest), text
    live.update()
    edit()
    if plant.name != "garbage_cycles":
        gc.collect()
    freed_bytes = live.update()
    cut = cut_of(result, plant.holder)
    assert cut is not None, text
    _, _, frees, _, left, is_native = cut
    if plant.proves:
        assert (frees, left, is_native) == (freed_bytes, 0, 0), f"edit frees {freed_bytes:,}\n{text}"

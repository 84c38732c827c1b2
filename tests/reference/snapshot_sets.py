"""The contents of memory and the lifetimes of blocks, computed by brute force.

Live sets, groupings, fragmentation, lifetimes and churn. Shares no code with the engine. Everything
here replays addresses, in quadratic time where that is the obvious way.

Definitions (one device; event e means "after event e", and -1 means "before the first event"):

  live set      address -> Block of every block that is allocated or pending free. The set at -1 is
                the set of the final segments rolled back through the whole trace; the set at e is
                that one replayed to e.
  stack         the frames of the alloc event; for a block that was live at the baseline, the frames
                of the final segments if it is still there; else unknown, the empty tuple
  line          the innermost Python frame that is the user's own; else the innermost of a package
                or the standard library, but not of torch; as "file:line function", or
                "unknown"
  lifetime      one alloc to its free_requested (or free_completed, when that one was lost)
  bytes x time  size * (end time - start time) in byte-nanoseconds; a lifetime that is open on a
                side is cut at the first or last event's time
  churn         lifetimes whose free_requested comes at most `within` events after their alloc
  cached        reserved - active
  internal      the sum of (size - requested_size) over allocated blocks
  pins          the allocated or pending blocks of a segment, which keep it from the driver
"""

import collections
import dataclasses
import re

try:
    from . import snapshot_totals as totals
except ImportError:  # run as a script or with this folder on the path
    import snapshot_totals as totals

# torch itself, and what torch.compile writes. A folder that is merely named "torch" (a virtual
# environment, say) is not torch.
TORCH_FILE = re.compile(
    r"(site|dist)-packages/torch/|^torch/|/pytorch/torch/|/torchinductor_|^<frozen"
)
LIBRARY_FILE = re.compile(
    r"(^|/)((site|dist)-packages|lib(64)?/python3[0-9.]*t?)/|/Python3\d+/Lib/"
)


@dataclasses.dataclass
class Block:
    size: int  # requested bytes
    state: str  # "allocated" or "pending_free"
    stack: tuple = ()
    alloc_event: int | None = None


def stack_of(frames):
    return tuple((f.get("filename", ""), f.get("line", 0), f.get("name", "")) for f in frames or ())


def trace_of(snapshot, device):
    traces = snapshot.get("device_traces", [])
    return traces[device] if device < len(traces) else []


def segments_of(snapshot, device):
    return [s for s in snapshot.get("segments", []) if s.get("device", 0) == device]


def addressed_blocks(segment):
    """Yield (address, block); a block without address (torch 2.0) follows its predecessor."""
    address = segment["address"]
    for block in segment["blocks"]:
        address = block.get("address", address)
        yield address, block
        address += block["size"]


def block_frames(block):
    if "frames" in block:
        return block["frames"]
    history = block.get("history")
    return history[0].get("frames", []) if history else []


def final_live_set(snapshot, device):
    live = {}
    for segment in segments_of(snapshot, device):
        for address, block in addressed_blocks(segment):
            if block["state"] in totals.ACTIVE_STATES:
                state = "allocated" if block["state"] in totals.ALLOCATED_STATES else "pending_free"
                live[address] = Block(
                    totals.requested_size(block), state, stack_of(block_frames(block))
                )
    return live


def baseline_live_set(snapshot, device):
    live = final_live_set(snapshot, device)
    for event in reversed(trace_of(snapshot, device)):
        action, address = event["action"], event.get("addr")
        if action == "alloc":
            live.pop(address, None)
        elif action == "free_completed":
            live[address] = Block(event["size"], "pending_free")
        elif action == "free_requested":
            live.setdefault(address, Block(event["size"], "allocated")).state = "allocated"
    return live


def live_set(snapshot, device, event_index):
    live = baseline_live_set(snapshot, device)
    for index, event in enumerate(trace_of(snapshot, device)[: event_index + 1]):
        action, address = event["action"], event.get("addr")
        if action == "alloc":
            live[address] = Block(event["size"], "allocated", stack_of(event.get("frames")), index)
        elif action == "free_requested" and address in live:
            live[address].state = "pending_free"
        elif action == "free_completed":
            live.pop(address, None)
    return live


def is_python_outside_torch(filename):
    path = filename.replace("\\", "/")
    is_python = path.endswith((".py", ".pyw")) or path.startswith("<")
    return is_python and not TORCH_FILE.search(path)


def is_library(filename):
    return bool(LIBRARY_FILE.search(filename.replace("\\", "/")))


def user_line(stack):
    of_python = [frame for frame in stack if is_python_outside_torch(frame[0])]
    of_user = [frame for frame in of_python if not is_library(frame[0])]
    for filename, line, name in of_user or of_python:
        return f"{filename}:{line} {name}"
    return "unknown"


def group(blocks, key):
    """{key(stack): (bytes, count)} of the blocks that are allocated (not pending free)."""
    groups = collections.defaultdict(lambda: (0, 0))
    for block in blocks:
        if block.state == "allocated":
            size, count = groups[key(block.stack)]
            groups[key(block.stack)] = (size + block.size, count + 1)
    return dict(groups)


def by_stack(blocks):
    return group(blocks, lambda stack: stack)


def by_line(blocks):
    return group(blocks, user_line)


def segment_fragmentation(segment):
    blocks = list(addressed_blocks(segment))
    active = [(a, b) for a, b in blocks if b["state"] in totals.ACTIVE_STATES]
    gaps, cursor = [], segment["address"]
    for address, block in sorted(active, key=lambda pair: pair[0]):
        gaps.append(address - cursor)
        cursor = address + block["size"]
    gaps.append(segment["address"] + segment["total_size"] - cursor)
    return {
        "address": segment["address"],
        "size_bytes": segment["total_size"],
        "free_bytes": segment["total_size"] - sum(b["size"] for _, b in active),
        "largest_gap_bytes": max(gaps),
        "internal_bytes": sum(
            b["size"] - totals.requested_size(b)
            for _, b in active
            if b["state"] in totals.ALLOCATED_STATES
        ),
        "pins": [address for address, _ in active],
    }


def fragmentation(snapshot, device):
    segments = [segment_fragmentation(segment) for segment in segments_of(snapshot, device)]
    return {
        "cached_bytes": sum(s["free_bytes"] for s in segments),
        "internal_bytes": sum(s["internal_bytes"] for s in segments),
        "pinned_free_bytes": sum(s["free_bytes"] for s in segments if s["pins"]),
        "segments": segments,
    }


def lifetimes(snapshot, device):
    """Every lifetime of the trace and the baseline: {alloc_event, free_event, size, byte_ns}."""
    trace = trace_of(snapshot, device)
    first = trace[0].get("time_us", 0) * 1000 if trace else 0
    last = trace[-1].get("time_us", 0) * 1000 if trace else 0
    open_lives = {}
    for address, block in baseline_live_set(snapshot, device).items():
        if block.state == "allocated":
            open_lives[address] = {
                "alloc_event": None,
                "free_event": None,
                "size": block.size,
                "start_ns": first,
            }
    done = []

    def close(life, event_index, end_ns):
        life["free_event"] = event_index
        life["byte_ns"] = life["size"] * (end_ns - life.pop("start_ns"))
        done.append(life)

    for index, event in enumerate(trace):
        action, address, now = event["action"], event.get("addr"), event.get("time_us", 0) * 1000
        if action == "alloc":
            open_lives[address] = {
                "alloc_event": index,
                "free_event": None,
                "size": event["size"],
                "start_ns": now,
            }
        elif action in ("free_requested", "free_completed") and address in open_lives:
            close(open_lives.pop(address), index, now)
    for life in open_lives.values():
        close(life, None, last)
    return done


def churn(snapshot, device, within):
    """{line: (allocations, bytes)} of lifetimes freed at most `within` events after their alloc."""
    trace, groups = trace_of(snapshot, device), collections.Counter()
    sizes = collections.Counter()
    for life in lifetimes(snapshot, device):
        if life["alloc_event"] is None or life["free_event"] is None:
            continue
        if life["free_event"] - life["alloc_event"] <= within:
            line = user_line(stack_of(trace[life["alloc_event"]].get("frames")))
            groups[line] += 1
            sizes[line] += life["size"]
    return {line: (groups[line], sizes[line]) for line in groups}

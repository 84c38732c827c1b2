"""Small random snapshots for property tests.

They have any version, several devices, and rings that lost their start. `make(random)` builds one
from a `random.Random`-like source (hypothesis gives one that shrinks). The events of a device come
from a tiny program over addresses, so frees match allocs; then a random prefix is cut off, as by a
full ring. Sizes reach beyond 2**31 and addresses beyond 2**63.
"""

import dataclasses

VERSIONS = ("2.0", "2.1", "2.2", "2.5", "2.8", "2.10", "2.12")
ACTIVE = ("active_allocated", "active_pending_free")


def since(version, first):
    return VERSIONS.index(version) >= VERSIONS.index(first)


def any_size(random):
    return random.randint(1, 2 ** random.choice((10, 20, 31, 33, 40)))


@dataclasses.dataclass
class Program:
    """The state of one device while its events are generated."""

    random: object
    version: str
    stacks: list
    next_address: int
    time_us: int = 1_700_000_000_000_000
    events: list = dataclasses.field(default_factory=list)
    blocks: dict = dataclasses.field(default_factory=dict)  # address -> [size, state, frames]
    free_addresses: list = dataclasses.field(default_factory=list)

    def event(self, action, address, size, frames=None):
        where = "device_free" if action == "oom" else "addr"
        entry = {"action": action, where: address, "size": size, "stream": 0}
        self.time_us += self.random.randint(0, 3)
        if since(self.version, "2.2"):
            entry["time_us"] = self.time_us
        if since(self.version, "2.8"):
            entry["compile_context"] = "N/A"
        if since(self.version, "2.10"):
            entry["user_metadata"] = ""
        if since(self.version, "2.12"):
            entry["pool_id"] = (0, 0)
        if frames is not None:
            entry["frames"] = frames
        self.events.append(entry)

    def alloc(self):
        size = any_size(self.random)
        if self.free_addresses and self.random.randint(0, 1):
            address = self.free_addresses.pop(self.random.randrange(len(self.free_addresses)))
        else:
            address = self.next_address
            self.next_address += 2**42
        frames = self.random.choice(self.stacks)
        self.blocks[address] = [size, "active_allocated", frames]
        self.event("alloc", address, size, frames)

    def free(self, state, action, next_state):
        """Move one block from `state` to `next_state`; None means freed."""
        candidates = [a for a, block in self.blocks.items() if block[1] == state]
        if not candidates:
            return
        address = self.random.choice(candidates)
        size, _, frames = self.blocks[address]
        self.event(action, address, size, frames)
        if next_state is None:
            del self.blocks[address]
            self.free_addresses.append(address)
        else:
            self.blocks[address][1] = next_state

    def step(self):
        kind = self.random.choice(("alloc", "alloc", "request", "request", "complete", "other"))
        if kind == "alloc":
            self.alloc()
        elif kind == "request":
            self.free("active_allocated", "free_requested", "active_pending_free")
            if self.random.randint(0, 3):
                self.free("active_pending_free", "free_completed", None)
        elif kind == "complete":
            self.free("active_pending_free", "free_completed", None)
        else:
            self.other()

    def other(self):
        action = self.random.choice(
            ("segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom", "snapshot")
        )
        if action == "snapshot":
            self.event(action, 0, sum(block[0] for block in self.blocks.values()))
        else:
            address = self.random.choice((2**21 * self.random.randint(1, 9), self.next_address))
            self.event(action, address, any_size(self.random), self.random.choice(self.stacks))


def final_block(program, address):
    size, state, frames = program.blocks[address]
    padding = program.random.choice((0, 0, 512, 2**20))
    block = {"address": address, "size": size + padding, "requested_size": size, "state": state}
    if program.version == "2.0":
        del block["address"]
        if program.random.randint(0, 1):
            del block["requested_size"]
        block["history"] = [{"addr": address, "real_size": size, "frames": frames or []}]
    else:
        block["frames"] = frames or []
    return block


def inactive_block(program, address, size):
    stale = program.random.choice((0, size, 12345))
    block = {"address": address, "size": size, "requested_size": stale, "state": "inactive"}
    if program.version == "2.0":
        del block["address"]
    else:
        block["frames"] = []
    return block


def final_segment(program, device, address):
    blocks = [final_block(program, address)] if address in program.blocks else []
    end = address + sum(block["size"] for block in blocks)
    if not blocks or program.random.randint(0, 1):
        blocks.append(inactive_block(program, end, any_size(program.random)))
    active = [block for block in blocks if block["state"] in ACTIVE]
    segment = {
        "device": device,
        "address": address,
        "total_size": sum(block["size"] for block in blocks),
        "allocated_size": sum(b["size"] for b in active if b["state"] == "active_allocated"),
        "active_size": sum(block["size"] for block in active),
        "requested_size": sum(block.get("requested_size", 0) for block in active),
        "stream": 0,
        "segment_type": "large",
    }
    if program.version != "2.0":
        segment["segment_pool_id"] = (0, 0)
        segment["is_expandable"] = bool(program.random.randint(0, 1))
        segment["frames"] = []
    segment["blocks"] = blocks
    return segment


def make_stacks(random, version):
    frame = {"filename": "train.py", "name": "step", "line": random.randint(0, 70000)}
    inner = {"filename": "??", "name": "at::empty()", "line": 0}
    stacks = [[], [frame], [inner, frame], [{**inner, "name": "x" * 300}, frame]]
    return stacks if version == "2.0" else [None, *stacks]


def make_device(random, version, device):
    base = random.choice((2**32, 0x7F0000000000, 2**63 + 2**30, 2**64 - 2**52)) + device * 2**48
    program = Program(random, version, make_stacks(random, version), base)
    for _ in range(random.randint(0, 30)):
        program.step()
    program.events = program.events[random.choice((0, 0, random.randint(0, len(program.events)))) :]
    addresses = sorted({*program.blocks, *program.free_addresses})
    return program.events, [final_segment(program, device, address) for address in addresses]


def make(random):
    """One snapshot, as a dict or sometimes as the bare list of its segments."""
    version = random.choice(VERSIONS)
    snapshot = {"segments": [], "device_traces": []}
    for device in range(random.randint(0, 3)):
        events, segments = make_device(random, version, device)
        snapshot["device_traces"].append(events)
        snapshot["segments"] += segments
    if random.randint(0, 7) == 0:  # a device that appears only in the segments
        snapshot["segments"] += make_device(random, version, 6)[1]
    if since(version, "2.2"):
        snapshot["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1}
    if since(version, "2.5"):
        snapshot["external_annotations"] = []
    if snapshot["segments"] and random.randint(0, 9) == 0:
        return snapshot["segments"]
    if random.randint(0, 9) == 0:
        del snapshot["device_traces"]
    return snapshot

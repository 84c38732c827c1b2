"""Special snapshots, which the generator cannot make, as torch.cuda.memory._snapshot() returns."""

MIB = 1 << 20
FRAMES = [
    {"filename": "/home/ada/nanolm/model.py", "name": "forward", "line": 12},
    {"filename": "/home/ada/nanolm/train.py", "name": "main", "line": 99},
]


def event(action: str, address: int, size: int, time_us: int) -> dict:
    place = {"action": action, "addr": address, "size": size, "stream": 0}
    return {**place, "time_us": time_us, "frames": FRAMES}


def segment(device: int, address: int, size: int, used: int) -> dict:
    """One segment with one live block at its start, or none."""
    blocks = [(address, "active_allocated", used), (address + used, "inactive", size - used)]
    return {
        "device": device,
        "address": address,
        "total_size": size,
        "allocated_size": used,
        "active_size": used,
        "requested_size": used,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {"address": begin, "size": bytes_, "requested_size": bytes_, "state": state}
            | {"frames": FRAMES}
            for begin, state, bytes_ in blocks
            if bytes_
        ],
    }


def inconsistent() -> dict:
    """Events that leave 30 MiB live, and segments without live blocks."""
    begin = 1_000_000
    events = [event("alloc", (i + 1) << 24, 10 * MIB, begin + i) for i in range(3)]
    return {"segments": [segment(0, 1 << 30, 20 * MIB, 0)], "device_traces": [events]}


def four_devices() -> dict:
    """Two of four devices in use, one of them only at the end."""
    begin = 1_000_000
    first = [
        event("segment_alloc", 1 << 30, 40 * MIB, begin),
        event("alloc", 1 << 30, 30 * MIB, begin + 250_000),
    ]
    segments = [segment(0, 1 << 30, 40 * MIB, 30 * MIB), segment(2, 1 << 31, 20 * MIB, 8 * MIB)]
    return {"segments": segments, "device_traces": [first, [], [], []]}


def uneven_devices() -> dict:
    """DataParallel: the outputs of two devices are gathered on the first."""
    begin = 1_000_000
    parallel = "/home/ada/venv/lib/python3.12/site-packages/torch/nn/parallel"
    gather = [
        {"filename": f"{parallel}/scatter_gather.py", "name": "gather", "line": 110},
        {"filename": f"{parallel}/data_parallel.py", "name": "forward", "line": 194},
        {"filename": "/home/ada/nanolm/train.py", "name": "main", "line": 99},
    ]
    replicate = [
        {"filename": f"{parallel}/data_parallel.py", "name": "forward", "line": 190},
        {"filename": "/home/ada/nanolm/train.py", "name": "main", "line": 99},
    ]
    traces, segments = [], []
    for device in range(2):
        base = (device + 1) << 40
        sizes = [2 << 30, 1 << 30, (12 << 30) if device == 0 else (256 << 20)]
        stacks = [FRAMES, replicate, gather if device == 0 else replicate]
        addresses = [base, base + sizes[0], base + sizes[0] + sizes[1]]
        traces.append(
            [
                event("alloc", address, size, begin + i) | {"frames": frames}
                for i, (address, size, frames) in enumerate(
                    zip(addresses, sizes, stacks, strict=True)
                )
            ]
        )
        whole = segment(device, base, sum(sizes), sum(sizes))
        whole["blocks"] = [
            {"address": address, "size": size, "requested_size": size}
            | {"state": "active_allocated", "frames": frames}
            for address, size, frames in zip(addresses, sizes, stacks, strict=True)
        ]
        segments.append(whole)
    return {"segments": segments, "device_traces": [*traces, []]}


RECIPES = {
    "inconsistent": inconsistent,
    "four-devices": four_devices,
    "uneven-devices": uneven_devices,
}

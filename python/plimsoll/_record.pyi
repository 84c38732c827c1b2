"""The recorder. Private: use the package."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload


def version() -> str: ...

def api_address() -> int:
    """Where the C interface lies that an adapter is given."""

def is_recording() -> bool: ...

def mark_step(number: int) -> None:
    """A step ends here."""

def mark_own_steps() -> None:
    """
    The program marks its steps: those before, which optimizers marked, do not count.
    """

def begin_region(name: str) -> None: ...

def end_region(name: str) -> None: ...

def begin_layer(path: str) -> None:
    """A layer's forward begins."""

def end_layer(path: str) -> None: ...

class Recording:
    """A running recording."""

    def __init__(self, path: bytes, replaces: bool, max_events: int, in_children: bool, marks_layer_calls: bool, meta: Mapping[str, str]) -> None: ...

    def path(self) -> bytes:
        """The file that it writes; empty in memory."""

    def flush(self) -> None:
        """Returns when all events so far are in the file."""

    def attach(self, format: str, data: bytes) -> int:
        """Puts another tool's record into the file; 0 or an errno."""

    def stop(self) -> dict[str, int]:
        """Ends the file; what there was to count."""

    def take(self) -> tuple[dict[str, int], bytes]:
        """Ends a recording into memory: what there was to count, and the trace."""

    def state(self) -> dict[str, int]: ...

    def copy(self) -> bytes:
        """In memory: the trace as it would stand in a file."""

    def peak_bytes(self, reset: bool) -> int:
        """The most live bytes there were since the last reset."""

    def pins(self, device: int) -> tuple[dict[str, int], list[dict[str, object]]]:
        """
        What the last request on a device that could not be met could not use, and which blocks keep it: sums, and places.
        """

    def since_step(self, device: int) -> tuple[int, dict[str, int]] | None:
        """
        The last step that ended, and how much more is live on a device since, by role.
        """

    def peaks(self) -> dict[str, int]:
        """The most live bytes there were on each device."""

def mark_doing() -> None:
    """Marks what this thread's context has become."""

def mark_ranges(is_wanted: bool) -> None:
    """Marks each layer and phase that the compiled adapter sees."""

def context() -> dict[str, str]:
    """What this thread is doing, in words."""

def stack(frames: Sequence[tuple[str, str, int]]) -> int:
    """(file, function, line), innermost first."""

def set_context(layer: str, op: str, stack: int, op_instance: int, phase: int) -> None:
    """What this thread is doing."""

def tensor(role: int, name: str, dtype: str, shape: str) -> int: ...

def device(type: str, ordinal: int) -> int: ...

def notice(what: str, device: int, count: int, text: str) -> None:
    """Has every report say what went other than it should."""

def alloc(device: int, address: int, size_bytes: int) -> None: ...

def free(device: int, address: int) -> None: ...

def storage_died(storages: dict[int, Any], key: int, device: int, address: int, reference: object) -> None:
    """
    The callback of a weak reference: tells the free of what is in `storages`.
    """

def adopt(device: int, address: int, size_bytes: int, tensor: int) -> None: ...

class MonitorOptions:
    """The options of monitoring: see `plimsoll.load_options`."""

    @overload
    def __init__(self) -> None: ...

    @overload
    def __init__(self, other: MonitorOptions) -> None: ...

    @property
    def enabled(self) -> bool: ...

    @property
    def verbose_batches(self) -> int: ...

    @property
    def profile_tensors(self) -> bool: ...

    @property
    def interval(self) -> int: ...

    @property
    def phases(self) -> list[tuple[int, int, int]]:
        """As (from, to, interval), `to` being the first after it."""

    @property
    def snapshot_at(self) -> list[int]: ...

    @property
    def output_dir(self) -> str: ...

    @property
    def text_log(self) -> bool: ...

    @property
    def tensorboard(self) -> str: ...

    @property
    def section(self) -> str: ...

    @property
    def large_tensor_mb(self) -> float: ...

    @property
    def top_layers(self) -> int: ...

    @property
    def alerts(self) -> bool: ...

    @property
    def fragmentation_percent(self) -> float: ...

    @property
    def growth_percent(self) -> float: ...

    @property
    def alert_every(self) -> int: ...

    @property
    def fail_on_alert(self) -> bool: ...

    @property
    def adapter(self) -> str: ...

    @property
    def record(self) -> str: ...

    @property
    def nvtx(self) -> bool: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def print_ranks(self) -> str: ...

    @property
    def alert_above(self) -> str: ...

    @property
    def wandb(self) -> bool: ...

    def set(self, name: str, value: str) -> None:
        """Sets an option by its name or an alias, from text."""

    def set_from_environment(self) -> None:
        """Sets what the variables PLIMSOLL_MONITOR_NAME say."""

    def text(self, name: str) -> str:
        """The value as `set` takes it."""

    def interval_at(self, iteration: int) -> int: ...

    def is_due(self, iteration: int) -> bool:
        """Whether to take a sample."""

    @property
    def tensorboard_dir(self) -> str:
        """Empty: none."""

    @property
    def tensorboard_section(self) -> str:
        """What the tags in TensorBoard begin with."""

    def __repr__(self) -> str: ...

def monitor_options_help() -> list[tuple[str, list[str], str, str, str]]:
    """(name, aliases, type, default, sentence) of each option."""

class MemoryShare:
    """Live tensor memory that has a name in common."""

    def __init__(self) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def size_bytes(self) -> int: ...

    @size_bytes.setter
    def size_bytes(self, arg: int, /) -> None: ...

    @property
    def count(self) -> int: ...

    @count.setter
    def count(self, arg: int, /) -> None: ...

class LiveTensor:
    """One live allocation."""

    def __init__(self) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def category(self) -> str: ...

    @category.setter
    def category(self, arg: str, /) -> None: ...

    @property
    def dtype(self) -> str: ...

    @dtype.setter
    def dtype(self, arg: str, /) -> None: ...

    @property
    def shape(self) -> str: ...

    @shape.setter
    def shape(self, arg: str, /) -> None: ...

    @property
    def layer(self) -> str: ...

    @layer.setter
    def layer(self, arg: str, /) -> None: ...

    @property
    def size_bytes(self) -> int: ...

    @size_bytes.setter
    def size_bytes(self, arg: int, /) -> None: ...

class DevicePart:
    """A part of what is used on a device."""

    def __init__(self) -> None: ...

    @property
    def kind(self) -> str: ...

    @kind.setter
    def kind(self, arg: str, /) -> None: ...

    @property
    def size_bytes(self) -> int: ...

    @size_bytes.setter
    def size_bytes(self, arg: int, /) -> None: ...

    @property
    def pid(self) -> int: ...

    @pid.setter
    def pid(self, arg: int, /) -> None: ...

    @property
    def count(self) -> int: ...

    @count.setter
    def count(self, arg: int, /) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

class DeviceBar:
    """Who holds a device's memory; the parts sum to used_bytes."""

    def __init__(self) -> None: ...

    @property
    def used_bytes(self) -> int: ...

    @used_bytes.setter
    def used_bytes(self, arg: int, /) -> None: ...

    @property
    def total_bytes(self) -> int: ...

    @total_bytes.setter
    def total_bytes(self, arg: int, /) -> None: ...

    @property
    def time_ns(self) -> int: ...

    @time_ns.setter
    def time_ns(self, arg: int, /) -> None: ...

    @property
    def parts(self) -> list[DevicePart]: ...

    @parts.setter
    def parts(self, arg: Sequence[DevicePart], /) -> None: ...

    def text(self) -> str:
        """The parts as people read them."""

class HostMemory:
    """The machine, as this process sees it."""

    def __init__(self) -> None: ...

    @property
    def rss_bytes(self) -> int | None: ...

    @rss_bytes.setter
    def rss_bytes(self, arg: int | None, /) -> None: ...

    @property
    def used_bytes(self) -> int | None: ...

    @used_bytes.setter
    def used_bytes(self, arg: int | None, /) -> None: ...

    @property
    def total_bytes(self) -> int | None: ...

    @total_bytes.setter
    def total_bytes(self, arg: int | None, /) -> None: ...

    @property
    def cpu_percent(self) -> float | None: ...

    @cpu_percent.setter
    def cpu_percent(self, arg: float | None, /) -> None: ...

class DeviceMemory:
    """Its lists are copies: assign them whole."""

    def __init__(self) -> None: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def allocated_bytes(self) -> int | None: ...

    @allocated_bytes.setter
    def allocated_bytes(self, arg: int | None, /) -> None: ...

    @property
    def reserved_bytes(self) -> int | None: ...

    @reserved_bytes.setter
    def reserved_bytes(self, arg: int | None, /) -> None: ...

    @property
    def peak_bytes(self) -> int | None: ...

    @peak_bytes.setter
    def peak_bytes(self, arg: int | None, /) -> None: ...

    @property
    def at_peak(self) -> list[MemoryShare]: ...

    @at_peak.setter
    def at_peak(self, arg: Sequence[MemoryShare], /) -> None: ...

    @property
    def growth_bytes(self) -> int | None: ...

    @growth_bytes.setter
    def growth_bytes(self, arg: int | None, /) -> None: ...

    @property
    def used_bytes(self) -> int | None: ...

    @used_bytes.setter
    def used_bytes(self, arg: int | None, /) -> None: ...

    @property
    def total_bytes(self) -> int | None: ...

    @total_bytes.setter
    def total_bytes(self, arg: int | None, /) -> None: ...

    @property
    def uuid(self) -> str: ...

    @uuid.setter
    def uuid(self, arg: str, /) -> None: ...

    @property
    def bar(self) -> DeviceBar | None: ...

    @bar.setter
    def bar(self, arg: DeviceBar | None, /) -> None: ...

    @property
    def live_count(self) -> int: ...

    @live_count.setter
    def live_count(self, arg: int, /) -> None: ...

    @property
    def live_bytes(self) -> int: ...

    @live_bytes.setter
    def live_bytes(self, arg: int, /) -> None: ...

    @property
    def categories(self) -> list[MemoryShare]: ...

    @categories.setter
    def categories(self, arg: Sequence[MemoryShare], /) -> None: ...

    @property
    def dtypes(self) -> list[MemoryShare]: ...

    @dtypes.setter
    def dtypes(self, arg: Sequence[MemoryShare], /) -> None: ...

    @property
    def layers(self) -> list[MemoryShare]: ...

    @layers.setter
    def layers(self, arg: Sequence[MemoryShare], /) -> None: ...

    @property
    def large_count(self) -> int: ...

    @large_count.setter
    def large_count(self, arg: int, /) -> None: ...

    @property
    def large_bytes(self) -> int: ...

    @large_bytes.setter
    def large_bytes(self, arg: int, /) -> None: ...

    @property
    def large_tensors(self) -> list[LiveTensor]: ...

    @large_tensors.setter
    def large_tensors(self, arg: Sequence[LiveTensor], /) -> None: ...

class MemorySample:
    """
    What memory holds at one moment. Its lists are copies: assign them whole.
    """

    def __init__(self) -> None: ...

    @property
    def time_ns(self) -> int: ...

    @time_ns.setter
    def time_ns(self, arg: int, /) -> None: ...

    @property
    def iteration(self) -> int: ...

    @iteration.setter
    def iteration(self, arg: int, /) -> None: ...

    @property
    def loss(self) -> float | None: ...

    @loss.setter
    def loss(self, arg: float | None, /) -> None: ...

    @property
    def batch_size(self) -> int | None: ...

    @batch_size.setter
    def batch_size(self, arg: int | None, /) -> None: ...

    @property
    def ran_out(self) -> bool: ...

    @ran_out.setter
    def ran_out(self, arg: bool, /) -> None: ...

    @property
    def ran_out_of(self) -> str: ...

    @ran_out_of.setter
    def ran_out_of(self, arg: str, /) -> None: ...

    @property
    def failed_batch_size(self) -> int | None: ...

    @failed_batch_size.setter
    def failed_batch_size(self, arg: int | None, /) -> None: ...

    @property
    def large_tensor_bytes(self) -> int: ...

    @large_tensor_bytes.setter
    def large_tensor_bytes(self, arg: int, /) -> None: ...

    @property
    def host(self) -> HostMemory: ...

    @host.setter
    def host(self, arg: HostMemory, /) -> None: ...

    @property
    def devices(self) -> list[DeviceMemory]: ...

    @devices.setter
    def devices(self, arg: Sequence[DeviceMemory], /) -> None: ...

def scalars_of(sample: MemorySample, section: str = 'Memory', top_layers: int = 10) -> list[tuple[str, float]]:
    """The TensorBoard tags of a sample, and their values."""

class EventFile:
    """A TensorBoard event file of our own."""

    def __init__(self, folder: str) -> None: ...

    def write(self, time_ns: int, step: int, scalars: Sequence[tuple[str, float]]) -> str | None:
        """What went wrong, told once; from then on nothing is written."""

    def close(self) -> None: ...

    @property
    def path(self) -> str: ...

class TextLog:
    """OUTPUT_DIR/profiles/tensor_profile_TIMESTAMP.log."""

    def __init__(self, output_dir: str, top_layers: int = 10) -> None: ...

    def write(self, sample: MemorySample) -> str | None:
        """What went wrong, told once; from then on nothing is written."""

    def close(self) -> None: ...

    @property
    def path(self) -> str: ...

def text_log_snapshot(sample: MemorySample, top_layers: int = 10) -> str:
    """A snapshot of the text log, as it is written."""

def text_log_header(time_ns: int) -> str:
    """The first lines of a text log."""

def append_text_log(path: str, sample: MemorySample, top_layers: int = 10) -> str | None:
    """Appends a snapshot to the log at a path. Returns what failed."""

class Alert:
    """What is wrong, why we say so, what to do."""

    @property
    def id(self) -> str: ...

    @property
    def severity(self) -> str: ...

    @property
    def device(self) -> str: ...

    @property
    def subject(self) -> str: ...

    @property
    def iteration(self) -> int: ...

    @property
    def title(self) -> str: ...

    @property
    def evidence(self) -> list[str]: ...

    @property
    def next_step(self) -> str: ...

    @property
    def saving_bytes(self) -> int: ...

    def __str__(self) -> str: ...

class Detector:
    """The rules of detection, over one sample after another."""

    def __init__(self, growth_percent: float = 10.0, fragmentation_percent: float = 40.0, alert_every: int = 10) -> None: ...

    def observe(self, sample: MemorySample) -> list[Alert]:
        """What is to be told now."""

    def findings(self) -> list[Alert]:
        """All findings of the run so far."""

def start_watching() -> None:
    """Records into nothing, for samples and monitors to ask."""

def stop_watching() -> None: ...

def is_watching() -> bool: ...

def set_process_rank(rank: int, world_size: int) -> None:
    """Takes precedence over RANK and WORLD_SIZE of the environment."""

def process_rank() -> int | None:
    """The rank of this process; None in a run of one process."""

def rank_folder(folder: str) -> str:
    """Where this rank writes."""

def with_rank(text: str) -> str:
    """The lines of a text with their rank."""

def printed_by_rank(text: str) -> str | None:
    """The same for lines of monitors; None where this rank prints none."""

def start_showing() -> None:
    """Shows what is live to plimsoll top, where it can; counted."""

def stop_showing() -> None: ...

def start_device_watch() -> None:
    """Asks NVIDIA's driver who holds the GPUs of this process; counted."""

def stop_device_watch() -> None: ...

def device_bar(ordinal: int, wait_seconds: float = 0.0) -> DeviceBar | None:
    """
    Who holds a CUDA device; with a wait, as the driver tells now. None: not known.
    """

def start_nvtx() -> None:
    """Shows ranges and memory to the tool that takes NVTX; counted."""

def stop_nvtx() -> None: ...

def set_device_source(ask: Callable[[], Sequence[DeviceMemory]] | None) -> None:
    """What allocators and drivers say of their devices."""

class PeakSpan:
    """The peaks of all devices from its making on."""

    def __init__(self) -> None: ...

def take_sample(iteration: int = 0, loss: float | None = None, large_tensor_bytes: int = 104857600, large_tensors: int = 10, peak_since: PeakSpan | None = None) -> MemorySample:
    """What memory holds now."""

class TensorUsage:
    @property
    def allocated_bytes(self) -> int | None: ...

    @property
    def reserved_bytes(self) -> int | None: ...

    @property
    def peak_bytes(self) -> int | None: ...

    @property
    def peak_reserved_bytes(self) -> int | None: ...

    @property
    def peak_below_bytes(self) -> int | None: ...

class MemoryUsage:
    @property
    def rss_bytes(self) -> int | None: ...

    @property
    def cpu(self) -> TensorUsage: ...

    @property
    def gpu(self) -> TensorUsage | None: ...

def current_usage() -> MemoryUsage: ...

def print_memory_usage(prefix: str) -> None: ...

class MemoryTracker:
    def __init__(self) -> None: ...

    def record(self, name: str) -> None: ...

    def print_summary(self) -> None: ...

    def checkpoints(self) -> list[tuple[str, MemoryUsage]]: ...

class BlockMemory:
    """What a block did to memory."""

    @property
    def peak_bytes(self) -> int | None: ...

    @property
    def peaks(self) -> dict[str, int]: ...

    @property
    def before(self) -> MemoryUsage: ...

    @property
    def after(self) -> MemoryUsage: ...

class TrackMemory:
    """A block, from its making to finish()."""

    def __init__(self, name: str) -> None: ...

    def finish(self) -> BlockMemory: ...

class EpochMemoryMonitor:
    def __init__(self, enabled: bool, verbose_batches: int) -> None: ...

    def on_epoch_start(self) -> None: ...

    def on_batch_end(self, batch: int, loss: object | None) -> None: ...

    def on_epoch_end(self) -> None: ...

class OptimizationMemoryMonitor:
    def __init__(self, enabled: bool, verbose_evaluations: int) -> None: ...

    def on_start(self) -> None: ...

    def on_loss_evaluation(self, loss: object | None) -> None: ...

    def on_end(self) -> None: ...

    @property
    def evaluations(self) -> int: ...

class BatchMemoryProfiler:
    def __init__(self, enabled: bool) -> None: ...

    def checkpoint(self, name: str) -> None: ...

    def print_summary(self) -> None: ...

    def reset(self) -> None: ...

    def disable(self) -> None: ...

class MemoryAlert:
    """Something that goes wrong with memory."""

    @property
    def id(self) -> str:
        """Stable name of the rule."""

    @property
    def severity(self) -> str:
        """info, warning or critical."""

    @property
    def device(self) -> str: ...

    @property
    def subject(self) -> str:
        """What of it: a category, or empty."""

    @property
    def iteration(self) -> int: ...

    @property
    def title(self) -> str:
        """The verdict."""

    @property
    def evidence(self) -> list[str]:
        """Why we say so."""

    @property
    def next_step(self) -> str:
        """What to do."""

    @property
    def saving_bytes(self) -> int:
        """0: nothing, or not known."""

    @property
    def text(self) -> str:
        """All of it, as people read it."""

    def __str__(self) -> str: ...

class TrainingMonitor:
    def __init__(self, options: MonitorOptions, begin_snapshot: Callable[[str], None], end_snapshot: Callable[[], None]) -> None: ...

    def on_alert(self, callback: Callable[[MemoryAlert], None]) -> None: ...

    def on_sample(self, callback: Callable[[MemorySample], None]) -> None: ...

    def step(self, iteration: int | None, loss: object | None) -> None: ...

    def set_batch_size(self, items: int) -> None: ...

    def ran_out(self, iteration: int | None, error: str) -> None: ...

    def close(self) -> None: ...

    @property
    def options(self) -> MonitorOptions: ...

    @property
    def text_log_path(self) -> str: ...

    @property
    def event_file_path(self) -> str: ...

    @property
    def samples(self) -> int: ...

    @property
    def alerts(self) -> int: ...

    @property
    def should_fail(self) -> bool: ...

def is_raised_by_signal(error: BaseException) -> bool:
    """Whether the handler of a signal raised the error."""

class QuietWriting:
    """
    A block in which a write that fails raises OSError and sends the program no signal.
    """

    def __init__(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

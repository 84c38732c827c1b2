"""The recorder. Private: use the package."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload


def version() -> str: ...

def api_address() -> int:
    """Return the address of the C interface, for adapters."""

def is_recording() -> bool: ...

def wants_holders() -> bool:
    """Return whether somebody has asked for holders, once for each request."""

def mark_step(number: int) -> None:
    """End a step."""

def mark_own_steps() -> None:
    """
    Note that the program marks its steps; earlier steps, marked by optimizers, do not count.
    """

def mark_collection(phase: object, info: object) -> None:
    """
    Callback for gc.callbacks: mark the begin or the end of a garbage collection.
    """

def begin_region(name: str) -> None: ...

def end_region(name: str) -> None: ...

def begin_layer(path: str) -> None:
    """Begin the forward of a layer."""

def end_layer(path: str) -> None: ...

class Recording:
    """A running recording."""

    def __init__(self, path: bytes, replaces: bool, max_events: int, in_children: bool, marks_layer_calls: bool, source_text: bool, meta: Mapping[str, str]) -> None: ...

    def path(self) -> bytes:
        """The trace file; empty if in memory."""

    def flush(self) -> None:
        """Wait until all events so far are in the file."""

    def read_process(self) -> None:
        """Read the memory of the process now, and not at the end."""

    def attach(self, format: str, data: bytes) -> int:
        """Attach the data of another tool to the file; return 0 or an errno."""

    def stop(self) -> dict[str, int]:
        """End the recording; return its counters."""

    def take(self) -> tuple[dict[str, int], bytes]:
        """End a recording in memory; return its counters and the trace."""

    def state(self) -> dict[str, int]: ...

    def copy(self) -> bytes:
        """Return the trace of a recording in memory, as it would be in a file."""

    def peak_bytes(self, reset: bool) -> int:
        """Return the peak of live bytes since the last reset."""

    def pins(self, device: int) -> tuple[dict[str, int], list[dict[str, object]]]:
        """
        Return what the last failed request on a device could not use, and the blocks that pin it.
        """

    def since_step(self, device: int) -> tuple[int, dict[str, int]] | None:
        """
        Return the last step that ended, and the growth of live bytes since, by role.
        """

    def peaks(self) -> dict[str, int]:
        """Return the peak of live bytes on each device."""

def mark_activity() -> None:
    """Mark the new context of this thread."""

def mark_ranges(is_wanted: bool) -> None:
    """Mark each layer and phase that the compiled adapter sees."""

def context() -> dict[str, str]:
    """Return the context of this thread, as names."""

def stack(frames: Sequence[tuple[str, str, int]]) -> int:
    """
    Return the id of a stack, given its frames (file, function, line), innermost first.
    """

def function(file: str, name: str, first_line: int) -> None:
    """Record where a function in the frames of stacks begins."""

def module(path: str, type: str, parameter_bytes: int, state: int) -> None:
    """
    Record a module of a model. State: a sum of those of plimsoll_module_state.
    """

def set_context(layer: str, op: str, stack: int, op_instance: int, phase: int, autograd: int = 0) -> None:
    """Set the context of this thread."""

def tensor(role: int, name: str, dtype: str, shape: str) -> int: ...

def device(type: str, ordinal: int) -> int: ...

def notice(what: str, device: int, count: int, text: str) -> None:
    """Record a notice that every report of the recording lists."""

def alloc(device: int, address: int, size_bytes: int) -> None: ...

def free(device: int, address: int) -> None: ...

def storage_died(storages: dict[int, Any], key: int, device: int, address: int, reference: object) -> None:
    """
    Callback of a weak reference: record the free of a storage in `storages`.
    """

def adopt(device: int, address: int, size_bytes: int, tensor: int) -> None: ...

class MonitorOptions:
    """Options of monitoring; see `plimsoll.load_options`."""

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
        """
        Phases as (from, to, interval); `to` is the first iteration after the phase.
        """

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
    def image_every(self) -> int: ...

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

    @property
    def uses(self) -> str: ...

    def set(self, name: str, value: str) -> None:
        """Set an option by name or alias, from text."""

    def set_from_environment(self) -> None:
        """Set the options given by variables PLIMSOLL_MONITOR_NAME."""

    def text(self, name: str) -> str:
        """Return the value as text, as `set` accepts it."""

    def interval_at(self, iteration: int) -> int: ...

    def is_due(self, iteration: int) -> bool:
        """Whether to take a sample in this iteration."""

    @property
    def tensorboard_dir(self) -> str:
        """Folder of the event files; empty for none."""

    @property
    def tensorboard_section(self) -> str:
        """Prefix of the TensorBoard tags."""

    def __repr__(self) -> str: ...

def monitor_options_help() -> list[tuple[str, list[str], str, str, str]]:
    """Return (name, aliases, type, default, description) of each option."""

def misspelt(word: str, known: Sequence[str], stems: Sequence[str]) -> str:
    """Return the known word that `word` misspells, or an empty string."""

class MemoryShare:
    """Live tensor memory of one category, dtype or layer."""

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
    """A part of the memory in use on a device."""

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
    """Memory of a device by user; the parts sum to used_bytes."""

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
        """Return the parts as text."""

class HostMemory:
    """Memory of the machine, as this process sees it."""

    def __init__(self) -> None: ...

    @property
    def rss_bytes(self) -> int | None: ...

    @rss_bytes.setter
    def rss_bytes(self, arg: int | None, /) -> None: ...

    @property
    def worker_count(self) -> int: ...

    @worker_count.setter
    def worker_count(self, arg: int, /) -> None: ...

    @property
    def workers_bytes(self) -> int | None: ...

    @workers_bytes.setter
    def workers_bytes(self, arg: int | None, /) -> None: ...

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
    """
    Memory of a device. The lists are copies: to change one, assign a new list.
    """

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
    def peak_phase(self) -> str: ...

    @peak_phase.setter
    def peak_phase(self, arg: str, /) -> None: ...

    @property
    def at_peak(self) -> list[MemoryShare]: ...

    @at_peak.setter
    def at_peak(self, arg: Sequence[MemoryShare], /) -> None: ...

    @property
    def peak_tensors(self) -> list[LiveTensor]: ...

    @peak_tensors.setter
    def peak_tensors(self, arg: Sequence[LiveTensor], /) -> None: ...

    @property
    def growth_bytes(self) -> int | None: ...

    @growth_bytes.setter
    def growth_bytes(self, arg: int | None, /) -> None: ...

    @property
    def growing(self) -> list[MemoryShare]: ...

    @growing.setter
    def growing(self, arg: Sequence[MemoryShare], /) -> None: ...

    @property
    def unused_bytes(self) -> int | None: ...

    @unused_bytes.setter
    def unused_bytes(self, arg: int | None, /) -> None: ...

    @property
    def unused(self) -> list[MemoryShare]: ...

    @unused.setter
    def unused(self, arg: Sequence[MemoryShare], /) -> None: ...

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
    def components(self) -> list[MemoryShare]: ...

    @components.setter
    def components(self, arg: Sequence[MemoryShare], /) -> None: ...

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
    Memory in use at one point in time. The lists are copies: to change one, assign a new list.
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
    """Return the TensorBoard tags of a sample, and their values."""

class ScalarSeries:
    """The tags of a run's samples, without figures of the CPU that are 0."""

    def __init__(self, section: str = 'Memory', top_layers: int = 10) -> None: ...

    def next(self, sample: MemorySample) -> list[tuple[str, float]]:
        """Return the tags of the next sample, and their values."""

class EventFile:
    """A TensorBoard event file."""

    def __init__(self, folder: str) -> None: ...

    def write(self, time_ns: int, step: int, scalars: Sequence[tuple[str, float]]) -> str | None:
        """
        Return the error the first time, else None. After an error nothing is written.
        """

    def close(self) -> None: ...

    @property
    def path(self) -> str: ...

class TextLog:
    """OUTPUT_DIR/profiles/tensor_profile_TIMESTAMP.log."""

    def __init__(self, output_dir: str, top_layers: int = 10) -> None: ...

    def write(self, sample: MemorySample) -> str | None:
        """
        Return the error the first time, else None. After an error nothing is written.
        """

    def close(self) -> None: ...

    @property
    def path(self) -> str: ...

def text_log_snapshot(sample: MemorySample, top_layers: int = 10) -> str:
    """Return the text of a sample in the text log."""

def text_log_header(time_ns: int) -> str:
    """Return the header of a text log."""

def append_text_log(path: str, sample: MemorySample, top_layers: int = 10) -> str | None:
    """Append a sample to the log at a path. Returns the error, if any."""

class Detector:
    """The detection rules, applied to a sequence of samples."""

    def __init__(self, growth_percent: float = 10.0, fragmentation_percent: float = 40.0, alert_every: int = 10) -> None: ...

    def observe(self, sample: MemorySample) -> list[MemoryAlert]:
        """Add a sample; return the findings to report now."""

    def findings(self) -> list[MemoryAlert]:
        """Return all findings of the run so far."""

def start_watching() -> None:
    """Start counting memory for samples and monitors, without a recording."""

def stop_watching() -> None: ...

def is_watching() -> bool: ...

def set_process_rank(rank: int, world_size: int) -> None:
    """
    Set the rank; takes precedence over the environment's RANK and WORLD_SIZE.
    """

def process_rank() -> int | None:
    """Return the rank of this process; None in a run of one process."""

def rank_folder(folder: str) -> str:
    """Return the folder of this rank."""

def with_rank(text: str) -> str:
    """Return the lines of a text, each with the rank."""

def printed_by_rank(text: str) -> str | None:
    """
    Return the lines of a monitor with the rank; None if this rank prints none.
    """

def start_showing() -> None:
    """Publish live memory for plimsoll top, if possible. Calls are counted."""

def stop_showing() -> None: ...

def start_device_watch() -> None:
    """
    Query NVIDIA's driver for the users of this process's GPUs. Calls are counted.
    """

def stop_device_watch() -> None: ...

def device_bar(ordinal: int, wait_seconds: float = 0.0) -> DeviceBar | None:
    """
    Return the users of a CUDA device; None if unknown. With `wait`, query the driver now.
    """

def start_nvtx() -> None:
    """Send ranges and memory to the tool that reads NVTX. Calls are counted."""

def stop_nvtx() -> None: ...

def may_print_nvtx_failure() -> bool:
    """
    Return True the first time: all recordings and monitors fail for the same reason.
    """

def set_device_source(ask: Callable[[], Sequence[DeviceMemory]] | None) -> None:
    """Figures of a device from its allocator and driver."""

class PeakSpan:
    """Measures the peaks of all devices from its creation on."""

    def __init__(self) -> None: ...

class UseSteps:
    """
    The ends of the last steps, to find memory that no operator has used since.
    """

    def __init__(self) -> None: ...

    def end_step(self) -> None:
        """Call this between two operators."""

def set_describer(describe: Callable[[], None] | None) -> None:
    """Call this before each sample; it reports what no hook has reported."""

def take_sample(iteration: int = 0, loss: float | None = None, large_tensor_bytes: int = 104857600, large_tensors: int = 10, peak_since: PeakSpan | None = None, use_steps: UseSteps | None = None) -> MemorySample:
    """Return a sample of the memory in use now."""

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
    """What a block of code did to memory."""

    @property
    def peak_bytes(self) -> int | None: ...

    @property
    def peaks(self) -> dict[str, int]: ...

    @property
    def before(self) -> MemoryUsage: ...

    @property
    def after(self) -> MemoryUsage: ...

class TrackMemory:
    """Measures a block of code, from creation to finish()."""

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

class FindingStep:
    """One change to the program, with its own saving."""

    @property
    def text(self) -> str:
        """What to do."""

    @property
    def saving_bytes(self) -> int:
        """Bytes that this change would save; 0 if none or unknown."""

    @property
    def is_upper_bound(self) -> bool:
        """True if it may save less."""

    def __str__(self) -> str: ...

class FindingHolder:
    """What holds memory."""

    def __init__(self) -> None: ...

    @property
    def path(self) -> str:
        """What the program calls it, such as trainer.losses."""

    @path.setter
    def path(self, arg: str, /) -> None: ...

    @property
    def type(self) -> str:
        """Its class."""

    @type.setter
    def type(self, arg: str, /) -> None: ...

    @property
    def length(self) -> int:
        """Its entries; 0 if it is not a container."""

    @length.setter
    def length(self, arg: int, /) -> None: ...

    @property
    def limit(self) -> int:
        """The most entries that it keeps; 0: no limit."""

    @limit.setter
    def limit(self, arg: int, /) -> None: ...

    @property
    def chain(self) -> str:
        """The references from it to most of the bytes."""

    @chain.setter
    def chain(self, arg: str, /) -> None: ...

    @property
    def count(self) -> int:
        """Allocations of the finding that it holds."""

    @count.setter
    def count(self, arg: int, /) -> None: ...

    @property
    def bytes(self) -> int:
        """Their bytes."""

    @bytes.setter
    def bytes(self, arg: int, /) -> None: ...

    @property
    def is_cut(self) -> bool:
        """
        True if the references from elsewhere were counted; the next fields are known only then.
        """

    @is_cut.setter
    def is_cut(self, arg: bool, /) -> None: ...

    @property
    def freed_bytes(self) -> int:
        """Bytes of all that it holds that nothing else holds."""

    @freed_bytes.setter
    def freed_bytes(self, arg: int, /) -> None: ...

    @property
    def left_bytes(self) -> int:
        """Bytes of it that others hold, too."""

    @left_bytes.setter
    def left_bytes(self, arg: int, /) -> None: ...

    @property
    def other(self) -> str:
        """One of these others; empty if none is known."""

    @other.setter
    def other(self, arg: str, /) -> None: ...

    @property
    def is_native(self) -> bool:
        """True if native code holds some of it, too."""

    @is_native.setter
    def is_native(self, arg: bool, /) -> None: ...

class HeldBy:
    """What holds the memory of an alert."""

    def __init__(self) -> None: ...

    @property
    def holder(self) -> FindingHolder: ...

    @holder.setter
    def holder(self, arg: FindingHolder, /) -> None: ...

    @property
    def edit(self) -> str:
        """What ends it, as an imperative; may be empty."""

    @edit.setter
    def edit(self, arg: str, /) -> None: ...

class MemoryAlert:
    """A problem with memory, found while training or in a log."""

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
        """The category concerned, or empty."""

    @property
    def iteration(self) -> int: ...

    @property
    def title(self) -> str:
        """The verdict."""

    @property
    def evidence(self) -> list[str]:
        """The facts behind the verdict."""

    @property
    def steps(self) -> list[FindingStep]:
        """What to do: alternatives, the recommended one first."""

    @property
    def holders(self) -> list[FindingHolder]:
        """What holds the memory; empty if unknown."""

    @property
    def next_step(self) -> str:
        """The text of the first step."""

    @property
    def saving_bytes(self) -> int:
        """The saving of the first step; 0 if none or unknown."""

    @property
    def text(self) -> str:
        """The alert as text."""

    def __str__(self) -> str: ...

class TrainingMonitor:
    def __init__(self, options: MonitorOptions, begin_snapshot: Callable[[str], None], end_snapshot: Callable[[], None]) -> None: ...

    def on_alert(self, callback: Callable[[MemoryAlert], None]) -> None: ...

    def find_holders(self, find: Callable[[MemoryAlert], object]) -> None: ...

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
    """Return whether a signal handler raised the error."""

class QuietWriting:
    """Context in which a failing write raises OSError and sends no signal."""

    def __init__(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

def start_detached(words: Sequence[bytes], environment: Sequence[bytes], out: int, log: int) -> int:
    """
    Start a program in a session of its own; return 0 or an errno. It is no child of this process: its end sends no signal. `out` and `log` become its stdout and stderr.
    """

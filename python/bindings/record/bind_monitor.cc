// Samples of live memory, and the monitors that print. Lines go through Python's print, so that
// notebooks and redirections receive them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "casters.h"
#include "errors.h"
#include "monitor/nvtx_ranges.h"
#include "plimsoll/monitor.h"
#include "plimsoll/process_rank.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

void print(const std::string& line) {
  const std::optional<std::string> text = printed_by_rank(line);
  if (!text) return;
  const QuietWriting quiet;
  try {
    // One write, so that lines of several ranks do not mix if Python's output is unbuffered.
    nb::module_::import_("builtins").attr("print")(decoded(*text + "\n"), nb::arg("end") = "");
  } catch (nb::python_error& error) {
    if (is_programs(error)) throw;
    error.discard_as_unraisable("plimsoll");  // a closed stdout must not stop the program
  }
}

// Prints only in finish(). When Python destroys the object, an exception may be pending, which a
// call into Python could discard.
class TrackedBlock {
 public:
  explicit TrackedBlock(std::string name)
      : block_(std::in_place, std::move(name), [this](const std::string& line) {
          if (is_finishing_) print(line);
        }) {}
  TrackedBlock(const TrackedBlock&) = delete;
  TrackedBlock& operator=(const TrackedBlock&) = delete;
  ~TrackedBlock() {
    const nb::error_scope kept;
    block_.reset();
  }
  const BlockMemory& finish() {
    is_finishing_ = true;
    return block_->finish();
  }

 private:
  bool is_finishing_ = false;
  std::optional<TrackMemory> block_;
};

// Reports to the recorder what no hook has reported, right before a sample. Empty while nothing is
// attached. Guarded by the GIL. Never destroyed, because it may own a Python object. Not on the
// heap, so that detaching can empty it without memory.
std::function<void()>& describer() {
  using Describer = std::function<void()>;
  alignas(Describer) static std::byte storage[sizeof(Describer)];
  static auto* const held = ::new (static_cast<void*>(storage)) Describer;
  return *held;
}

Monitoring switched(bool enabled) { return enabled ? Monitoring::kOn : Monitoring::kOff; }

void bind_watch(nb::module_& module) {
  module.def(
      "start_watching", [] { raise_if_failed(start_watching()); },
      "Start counting memory for samples and monitors, without a recording.");
  module.def("stop_watching", [] {
    nb::gil_scoped_release no_gil;
    stop_watching();
  });
  module.def("is_watching", &is_watching);
  module.def(
      "set_process_rank",
      [](std::int64_t rank, std::int64_t world_size) {
        set_process_rank({.rank = rank, .world_size = world_size});
      },
      nb::arg("rank"), nb::arg("world_size"),
      "Set the rank; takes precedence over the environment's RANK and WORLD_SIZE.");
  module.def(
      "process_rank",
      []() -> std::optional<std::int64_t> {
        const auto place = process_rank();
        return place ? std::optional(place->rank) : std::nullopt;
      },
      "Return the rank of this process; None in a run of one process.");
  module.def("rank_folder", &rank_folder, nb::arg("folder"), "Return the folder of this rank.");
  module.def("with_rank", &with_rank, nb::arg("text"),
             "Return the lines of a text, each with the rank.");
  module.def("printed_by_rank", &printed_by_rank, nb::arg("text"),
             "Return the lines of a monitor with the rank; None if this rank prints none.");
  module.def(
      "start_showing", [] { static_cast<void>(start_showing()); },
      "Publish live memory for plimsoll top, if possible. Calls are counted.");
  module.def("stop_showing", [] {
    nb::gil_scoped_release no_gil;
    stop_showing();
  });
  module.def("start_device_watch", &start_device_watch,
             "Query NVIDIA's driver for the users of this process's GPUs. Calls are counted.");
  module.def("stop_device_watch", [] {
    nb::gil_scoped_release no_gil;
    stop_device_watch();
  });
  module.def(
      "device_bar",
      [](std::int32_t ordinal, double wait_seconds) {
        nb::gil_scoped_release no_gil;
        return current_device_bar(ordinal, static_cast<std::int64_t>(wait_seconds * 1e9));
      },
      nb::arg("ordinal"), nb::arg("wait_seconds") = 0.0,
      "Return the users of a CUDA device; None if unknown. With `wait`, query the driver now.");
  module.def(
      "start_nvtx", [] { raise_if_failed(start_nvtx()); },
      "Send ranges and memory to the tool that reads NVTX. Calls are counted.");
  module.def("stop_nvtx", &stop_nvtx);
  module.def("may_print_nvtx_failure", &monitor::may_print_nvtx_failure,
             "Return True the first time: all recordings and monitors fail for the same reason.");
  module.def(
      "set_device_source",
      [](std::optional<std::function<std::vector<DeviceMemory>()>> ask) {
        if (!ask) return set_device_source({});
        set_device_source([ask = std::move(*ask)]() -> std::vector<DeviceMemory> {
          try {
            return ask();
          } catch (nb::python_error& error) {
            // NVTX ranges and destructors also call this, and nothing may be thrown through them.
            if (is_programs(error)) raise_later(error);
            return {};  // a driver error must not stop the program
          } catch (const std::exception&) {
            return {};
          }
        });
      },
      nb::arg("ask").none(), "Figures of a device from its allocator and driver.");
}

void bind_samples(nb::module_& module) {
  made_class<PeakSpan>(module, "PeakSpan",
                       "Measures the peaks of all devices from its creation on.")
      .def(nb::init<>());
  made_class<UseSteps>(
      module, "UseSteps",
      "The ends of the last steps, to find memory that no operator has used since.")
      .def(nb::init<>())
      .def("end_step", &UseSteps::end_step, "Call this between two operators.");
  module.def(
      "set_describer",
      [](std::optional<std::function<void()>> describe) {
        describer() = describe ? std::move(*describe) : std::function<void()>();
      },
      nb::arg("describe").none(),
      "Call this before each sample; it reports what no hook has reported.");
  module.def(
      "take_sample",
      [](std::int64_t iteration, std::optional<double> loss, std::uint64_t large_tensor_bytes,
         std::size_t large_tensors, const PeakSpan* peak_since, const UseSteps* use_steps) {
        if (const std::function<void()> describe = describer()) describe();
        return take_sample({.iteration = iteration,
                            .loss = loss,
                            .large_tensor_bytes = large_tensor_bytes,
                            .large_tensors = large_tensors,
                            .peak_since = peak_since,
                            .use_steps = use_steps});
      },
      nb::arg("iteration") = 0, nb::arg("loss") = nb::none(),
      nb::arg("large_tensor_bytes") = 100 << 20, nb::arg("large_tensors") = 10,
      nb::arg("peak_since") = nb::none(), nb::arg("use_steps") = nb::none(),
      "Return a sample of the memory in use now.");
}

using OptionalBytes = std::optional<std::uint64_t>;

void bind_usage(nb::module_& module) {
  made_class<TensorUsage>(module, "TensorUsage")
      .def_ro("allocated_bytes", &TensorUsage::allocated_bytes)
      .def_ro("reserved_bytes", &TensorUsage::reserved_bytes)
      .def_ro("peak_bytes", &TensorUsage::peak_bytes)
      .def_ro("peak_reserved_bytes", &TensorUsage::peak_reserved_bytes)
      .def_ro("peak_below_bytes", &TensorUsage::peak_below_bytes);
  made_class<MemoryUsage>(module, "MemoryUsage")
      .def_ro("rss_bytes", &MemoryUsage::rss_bytes)
      .def_ro("cpu", &MemoryUsage::cpu)
      .def_ro("gpu", &MemoryUsage::gpu);
  module.def("current_usage", &current_usage);
  module.def(
      "print_memory_usage",
      [](const std::string& prefix) { MemoryMonitor::print_memory_usage(prefix, print); },
      nb::arg("prefix"));
}

void bind_measures(nb::module_& module) {
  made_class<MemoryTracker>(module, "MemoryTracker")
      .def("__init__", [](MemoryTracker* self) { new (self) MemoryTracker(print); })
      .def("record", &MemoryTracker::record, nb::arg("name"))
      .def("print_summary", &MemoryTracker::print_summary)
      .def("checkpoints", [](const MemoryTracker& self) {
        std::vector<std::pair<std::string, MemoryUsage>> checkpoints;
        for (const auto& [name, usage] : self.checkpoints()) checkpoints.emplace_back(name, usage);
        return checkpoints;
      });
  made_class<BlockMemory>(module, "BlockMemory", "What a block of code did to memory.")
      .def_prop_ro("peak_bytes", &BlockMemory::peak_bytes)
      .def_ro("peaks", &BlockMemory::peaks)
      .def_ro("before", &BlockMemory::before)
      .def_ro("after", &BlockMemory::after);
  made_class<TrackedBlock>(module, "TrackMemory",
                           "Measures a block of code, from creation to finish().")
      .def(nb::init<std::string>(), nb::arg("name"))
      .def("finish", [](TrackedBlock& block) { return BlockMemory(block.finish()); });
}

// nanobind's tables (of objects, and of those that others keep alive) grow inside noexcept code,
// where a lack of memory would end the program. The tables never shrink, so their memory is
// reserved here.
void make_room_for_objects() {
  constexpr int kObjects = 1024;
  nb::list parts;  // each keeps its object alive
  for (int i = 0; i < kObjects; ++i) parts.append(nb::cast(BlockMemory()).attr("before"));
}

void bind_loops(nb::module_& module) {
  made_class<EpochMemoryMonitor>(module, "EpochMemoryMonitor")
      .def(
          "__init__",
          [](EpochMemoryMonitor* self, bool enabled, std::int64_t verbose_batches) {
            new (self) EpochMemoryMonitor(switched(enabled), verbose_batches, print);
          },
          nb::arg("enabled"), nb::arg("verbose_batches"))
      .def("on_epoch_start", &EpochMemoryMonitor::on_epoch_start)
      .def(
          "on_batch_end",
          [](EpochMemoryMonitor& self, std::int64_t batch, nb::handle loss) {
            self.on_batch_end(batch, loss_of(loss));
          },
          nb::arg("batch"), nb::arg("loss").none())
      .def("on_epoch_end", &EpochMemoryMonitor::on_epoch_end);
  made_class<OptimizationMemoryMonitor>(module, "OptimizationMemoryMonitor")
      .def(
          "__init__",
          [](OptimizationMemoryMonitor* self, bool enabled, std::int64_t verbose_evaluations) {
            new (self) OptimizationMemoryMonitor(switched(enabled), verbose_evaluations, print);
          },
          nb::arg("enabled"), nb::arg("verbose_evaluations"))
      .def("on_start", &OptimizationMemoryMonitor::on_start)
      .def(
          "on_loss_evaluation",
          [](OptimizationMemoryMonitor& self, nb::handle loss) {
            self.on_loss_evaluation(loss_of(loss));
          },
          nb::arg("loss").none())
      .def("on_end", &OptimizationMemoryMonitor::on_end)
      .def_prop_ro("evaluations", &OptimizationMemoryMonitor::evaluations);
  made_class<BatchMemoryProfiler>(module, "BatchMemoryProfiler")
      .def(
          "__init__",
          [](BatchMemoryProfiler* self, bool enabled) {
            new (self) BatchMemoryProfiler(switched(enabled), print);
          },
          nb::arg("enabled"))
      .def("checkpoint", &BatchMemoryProfiler::checkpoint, nb::arg("name"))
      .def("print_summary", &BatchMemoryProfiler::print_summary)
      .def("reset", &BatchMemoryProfiler::reset)
      .def("disable", &BatchMemoryProfiler::disable);
}

}  // namespace

Loss loss_of(nb::handle loss) {
  return [loss]() -> std::optional<double> {
    if (loss.is_none()) return std::nullopt;
    try {
      const bool is_tensor = nb::hasattr(loss, "detach");  // or torch would warn
      return nb::cast<double>(nb::float_(is_tensor ? loss.attr("detach")() : nb::borrow(loss)));
    } catch (const nb::python_error& error) {
      if (is_programs(error)) throw;
      return std::nullopt;  // not a number: the line is printed without it
    } catch (const std::exception&) {
      return std::nullopt;
    }
  };
}

void bind_monitor(nb::module_& module) {
  bind_watch(module);
  bind_samples(module);
  bind_usage(module);
  bind_measures(module);
  make_room_for_objects();
  bind_loops(module);
}

}  // namespace plimsoll::python

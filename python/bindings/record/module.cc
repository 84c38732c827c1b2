// plimsoll._record: the recorder for Python. Recordings, marks, and, if the adapter cannot be
// compiled, allocations reported from Python. Nothing here is hot.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/recorder_names.h"
#include "bind.h"
#include "casters.h"
#include "monitor/watch.h"
#include "plimsoll/last_failure_c.h"
#include "plimsoll/recorder_c.h"
#include "plimsoll/version.h"
#include "sample/live_rows.h"

namespace nb = nanobind;

namespace plimsoll::python {
namespace {

std::uint32_t name_id(const std::string& text) {
  return text.empty() ? 0 : recorder().name(text.data(), text.size());
}

std::string text_of(std::uint32_t name) {
  std::size_t size_bytes = 0;
  const char* text = plimsoll_name_text(name, &size_bytes);
  return {text, size_bytes};
}

// (file, function, line), innermost first.
std::vector<std::tuple<std::string, std::string, std::uint32_t>> frames_of(std::uint32_t stack) {
  std::vector<plimsoll_frame> frames(plimsoll_stack_frames(stack, nullptr, 0));
  plimsoll_stack_frames(stack, frames.data(), frames.size());
  std::vector<std::tuple<std::string, std::string, std::uint32_t>> reported;
  for (const plimsoll_frame& frame : frames) {
    reported.emplace_back(text_of(frame.file), text_of(frame.function), frame.line);
  }
  return reported;
}

constexpr std::size_t kMostPins = 10'000;  // places

// ---- recordings -------------------------------------------------------------------------------

class Recording {
 public:
  // An empty path records into memory.
  Recording(nb::bytes path, bool replaces, std::uint64_t max_events, bool in_children,
            bool marks_layer_calls, bool source_text,
            const std::map<std::string, std::string>& meta) {
    const std::string file(path.c_str(), path.size());
    std::vector<const char*> words;
    for (const auto& [key, value] : meta) {
      words.push_back(key.c_str());
      words.push_back(value.c_str());
    }
    words.push_back(nullptr);
    plimsoll_recording_options options{};
    options.size_bytes = sizeof(options);
    options.sink = file.empty() ? PLIMSOLL_SINK_MEMORY : PLIMSOLL_SINK_FILE;
    options.in_children = in_children ? 1 : 0;
    options.marks_layer_calls = marks_layer_calls ? 1 : 0;
    options.replaces = replaces ? 1 : 0;
    options.path = file.empty() ? nullptr : file.c_str();
    options.max_events = max_events;
    options.meta = words.data();
    options.omits_source_text = source_text ? 0 : 1;
    const char* error = nullptr;
    recording_ = plimsoll_recording_start(&options, &error);
    if (recording_ == nullptr) {
      throw std::runtime_error(error == nullptr ? "the recording could not be started" : error);
    }
    span_ = plimsoll_recording_begin_span(recording_);
    renew_activity();
    monitor::lend_recording(recording_);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (recording_ == nullptr) return;
    monitor::take_back_recording(recording_);
    plimsoll_recording_stop(recording_, nullptr);
  }

  nb::bytes path() const {
    const char* const path = plimsoll_recording_path(running());
    return nb::bytes(path, std::strlen(path));
  }
  void flush() const {
    plimsoll_recording* recording = running();
    nb::gil_scoped_release no_gil;
    plimsoll_recording_flush(recording);
  }
  void read_process() const {
    plimsoll_recording* recording = running();
    nb::gil_scoped_release no_gil;
    plimsoll_recording_read_process(recording);
  }
  int attach(const std::string& format, nb::bytes data) const {
    plimsoll_recording* recording = running();
    const char* const bytes = data.c_str();
    const std::size_t size_bytes = data.size();
    nb::gil_scoped_release no_gil;
    return plimsoll_recording_attach(recording, format.c_str(), bytes, size_bytes);
  }
  // A repeated call returns the same: an exception of a signal handler may have replaced the first
  // return value.
  nb::dict stop() {
    plimsoll_recording* recording = std::exchange(recording_, nullptr);
    if (recording == nullptr) return state_at_end_;
    plimsoll_recording_state state{};
    {
      nb::gil_scoped_release no_gil;
      monitor::take_back_recording(recording);
      plimsoll_recording_stop(recording, &state);
    }
    return state_at_end_ = reported(state);
  }
  // For a recording into memory: the result of stop(), and the trace. A repeated call returns the
  // same.
  nb::tuple take() {
    plimsoll_recording* recording = std::exchange(recording_, nullptr);
    if (recording == nullptr) return nb::make_tuple(state_at_end_, trace_);
    plimsoll_recording_state state{};
    std::size_t size_bytes = 0;
    std::unique_ptr<void, decltype(&std::free)> data(nullptr, &std::free);
    {
      nb::gil_scoped_release no_gil;
      monitor::take_back_recording(recording);
      data.reset(plimsoll_recording_take(recording, &state, &size_bytes));
    }
    if (!data) throw std::bad_alloc();
    state_at_end_ = reported(state);
    trace_ = nb::bytes(data.get(), size_bytes);
    return nb::make_tuple(state_at_end_, trace_);
  }
  nb::dict state() const {
    plimsoll_recording_state state{};
    plimsoll_recording_get_state(running(), &state);
    return reported(state);
  }
  nb::bytes copy() const {
    plimsoll_recording* recording = running();
    std::size_t size_bytes = 0;
    std::unique_ptr<void, decltype(&std::free)> data(nullptr, &std::free);
    {
      nb::gil_scoped_release no_gil;
      data.reset(plimsoll_recording_copy(recording, &size_bytes));
    }
    if (!data) throw std::bad_alloc();
    return nb::bytes(data.get(), size_bytes);
  }
  std::uint64_t peak_bytes(bool reset) const {
    plimsoll_recording* recording = running();
    nb::gil_scoped_release no_gil;
    return plimsoll_recording_peak_bytes(recording, reset ? 1 : 0);
  }

  plimsoll_recording* running() const {
    if (recording_ == nullptr) throw std::runtime_error("the recording has ended");
    return recording_;
  }
  nb::tuple pins(std::uint8_t device) const {
    plimsoll_recording* recording = running();
    plimsoll_stranded sums{};
    std::vector<plimsoll_pin> rows(kMostPins);
    {
      nb::gil_scoped_release no_gil;
      const std::size_t there =
          plimsoll_recording_pins(recording, device, &sums, rows.data(), rows.size());
      rows.resize(std::min(rows.size(), there));
    }
    nb::dict reported;
    reported["free_bytes"] = sums.free_bytes;
    reported["stranded_bytes"] = sums.stranded_bytes;
    reported["largest_usable_bytes"] = sums.largest_usable_bytes;
    nb::list places;
    for (const plimsoll_pin& row : rows) {
      nb::dict place;
      place["layer"] = text_of(row.layer);
      place["op"] = text_of(row.outer_op);
      place["stack"] = frames_of(row.stack);
      place["count"] = row.count;
      place["size_bytes"] = row.size_bytes;
      place["pinned_bytes"] = row.pinned_bytes;
      places.append(place);
    }
    return nb::make_tuple(reported, places);
  }
  std::optional<std::pair<std::uint64_t, std::map<std::string, std::int64_t>>> since_step(
      std::uint8_t device) const {
    plimsoll_recording* recording = running();
    std::uint64_t step = 0;
    std::array<std::uint64_t, PLIMSOLL_ROLE_WORKSPACE + 1> then{}, now{};
    int has_ended = 0;
    {
      nb::gil_scoped_release no_gil;
      has_ended = plimsoll_recording_since_step(recording, device, &step, then.data(), now.data());
    }
    if (has_ended == 0) return std::nullopt;
    std::map<std::string, std::int64_t> more;
    for (std::size_t role = 0; role < then.size(); ++role) {
      const std::string_view name = role == 0 ? std::string_view("rest") : base::kRoleNames[role];
      more[std::string(name)] = static_cast<std::int64_t>(now[role] - then[role]);
    }
    return std::pair(step, more);
  }
  std::map<std::string, std::uint64_t> peaks() const {
    plimsoll_recording* recording = running();
    std::vector<plimsoll_usage> rows(256);
    {
      nb::gil_scoped_release no_gil;
      rows.resize(std::min(rows.size(),
                           plimsoll_recording_usage(recording, span_, rows.data(), rows.size())));
    }
    std::map<std::string, std::uint64_t> reported;
    for (const plimsoll_usage& row : rows) {
      reported[sample::device_name(row)] = row.peak_bytes;
    }
    return reported;
  }

 private:
  static nb::dict reported(const plimsoll_recording_state& state) {
    nb::dict reported;
    reported["events"] = state.events;
    reported["dropped"] = state.dropped;
    reported["evicted"] = state.evicted;
    reported["written_bytes"] = state.written_bytes;
    reported["live_bytes"] = state.live_bytes;
    reported["live_count"] = state.live_count;
    reported["replaced"] = state.replaced;
    reported["unmatched"] = state.unmatched;
    reported["refused"] = state.refused;
    reported["error"] = state.error;
    reported["unrecorded_children"] = state.unrecorded_children;
    return reported;
  }

  plimsoll_recording* recording_ = nullptr;
  std::uint64_t span_ = 0;  // lives as long as the recording
  nb::dict state_at_end_;
  nb::object trace_;
};

void bind_recordings(nb::module_& module) {
  made_class<Recording>(module, "Recording", "A running recording.")
      .def(nb::init<nb::bytes, bool, std::uint64_t, bool, bool, bool,
                    const std::map<std::string, std::string>&>(),
           nb::arg("path"), nb::arg("replaces"), nb::arg("max_events"), nb::arg("in_children"),
           nb::arg("marks_layer_calls"), nb::arg("source_text"), nb::arg("meta"))
      .def("path", &Recording::path, "The trace file; empty if in memory.")
      .def("flush", &Recording::flush, "Wait until all events so far are in the file.")
      .def("read_process", &Recording::read_process,
           "Read the memory of the process now, and not at the end.")
      .def("attach", &Recording::attach, nb::arg("format"), nb::arg("data"),
           "Attach the data of another tool to the file; return 0 or an errno.")
      .def("stop", &Recording::stop, nb::sig("def stop(self) -> dict[str, int]"),
           "End the recording; return its counters.")
      .def("take", &Recording::take, nb::sig("def take(self) -> tuple[dict[str, int], bytes]"),
           "End a recording in memory; return its counters and the trace.")
      .def("state", &Recording::state, nb::sig("def state(self) -> dict[str, int]"))
      .def("copy", &Recording::copy,
           "Return the trace of a recording in memory, as it would be in a file.")
      .def("peak_bytes", &Recording::peak_bytes, nb::arg("reset"),
           "Return the peak of live bytes since the last reset.")
      .def("pins", &Recording::pins, nb::arg("device"),
           nb::sig("def pins(self, device: int) -> tuple[dict[str, int], list[dict[str, object]]]"),
           "Return what the last failed request on a device could not use, and the blocks that pin "
           "it.")
      .def("since_step", &Recording::since_step, nb::arg("device"),
           nb::sig("def since_step(self, device: int) -> tuple[int, dict[str, int]] | None"),
           "Return the last step that ended, and the growth of live bytes since, by role.")
      .def("peaks", &Recording::peaks, "Return the peak of live bytes on each device.");
}

// ---- marks ------------------------------------------------------------------------------------

void mark_step(std::uint64_t number) {
  recorder().mark(recorder().context(), PLIMSOLL_MARK_STEP, number);
}
void mark_own_steps() { recorder().mark(recorder().context(), PLIMSOLL_MARK_OWN_STEPS, 0); }

// A callback in gc.callbacks. It is not a Python function: in one, a signal handler could raise an
// exception, which the collector would swallow.
void mark_collection(nb::handle phase, nb::handle info) {
  if (recorder().is_recording() == 0) return;
  const char* const text = PyUnicode_AsUTF8AndSize(phase.ptr(), nullptr);
  PyObject* const generation = PyDict_GetItemString(info.ptr(), "generation");
  const std::uint64_t number = generation == nullptr ? 0 : PyLong_AsUnsignedLongLong(generation);
  const bool is_begin = text != nullptr && std::string_view(text) == "start";
  const bool is_end = text != nullptr && std::string_view(text) == "stop";
  if (PyErr_Occurred() != nullptr || is_begin == is_end) return PyErr_Clear();
  recorder().mark(recorder().context(),
                  is_begin ? PLIMSOLL_MARK_COLLECTION_BEGIN : PLIMSOLL_MARK_COLLECTION_END, number);
}

void begin_region(const std::string& name) {
  recorder().mark(recorder().context(), PLIMSOLL_MARK_REGION_BEGIN, name_id(name));
}
void end_region(const std::string& name) {
  recorder().mark(recorder().context(), PLIMSOLL_MARK_REGION_END, name_id(name));
}

// Marks a call of a layer, for recordings with layer calls.
void begin_layer(const std::string& path) {
  const auto* listener = __atomic_load_n(recorder().range_listener, __ATOMIC_ACQUIRE);
  if (listener != nullptr) listener->begin(PLIMSOLL_RANGE_LAYER, name_id(path));
}
void end_layer(const std::string& path) {
  const auto* listener = __atomic_load_n(recorder().range_listener, __ATOMIC_ACQUIRE);
  if (listener != nullptr) listener->end(PLIMSOLL_RANGE_LAYER, name_id(path));
}

// ---- allocations reported from Python ----------------------------------------------------------

using Frames = std::vector<std::tuple<std::string, std::string, std::uint32_t>>;

std::uint32_t stack_id(const Frames& frames) {
  std::vector<plimsoll_frame> reported;
  reported.reserve(frames.size());
  for (const auto& [file, function, line] : frames) {
    reported.push_back({name_id(file), name_id(function), line});
  }
  return reported.empty() ? 0 : recorder().stack(reported.data(), reported.size());
}

void function(const std::string& file, const std::string& name, std::uint32_t first_line) {
  recorder().function(name_id(file), name_id(name), first_line);
}

void module_of_model(const std::string& path, const std::string& type, std::uint64_t bytes,
                     std::uint8_t state) {
  recorder().module(name_id(path), name_id(type), bytes, state);
}

void set_context(const std::string& layer, const std::string& op, std::uint32_t stack,
                 std::uint32_t op_instance, std::uint8_t phase, std::uint8_t autograd) {
  plimsoll_context& context = *recorder().context();
  context.layer = name_id(layer);
  context.outer_op = context.inner_op = name_id(op);
  context.stack = stack;
  context.op_instance = op_instance;
  context.phase = phase;
  context.autograd = autograd;
}

std::uint32_t tensor_id(std::uint8_t role, const std::string& name, const std::string& dtype,
                        const std::string& shape) {
  return recorder().tensor(role, name_id(name), name_id(dtype), name_id(shape));
}

std::uint8_t device_id(const std::string& type, std::int32_t ordinal) {
  const auto& names = base::kDeviceTypeNames;
  const auto known = std::ranges::find(names, type);
  const auto kind = known == names.end() ? std::uint8_t{PLIMSOLL_DEVICE_OTHER}
                                         : static_cast<std::uint8_t>(known - names.begin());
  return kind == PLIMSOLL_DEVICE_CPU ? std::uint8_t{0} : recorder().device(kind, ordinal);
}

void notice(const std::string& what, std::uint8_t device, std::uint64_t count,
            const std::string& text) {
  const std::uint8_t number =
      what == "cuda_adapter_unavailable" ? PLIMSOLL_NOTICE_CUDA_ADAPTER_UNAVAILABLE
      : what == "device_not_recorded"    ? PLIMSOLL_NOTICE_DEVICE_NOT_RECORDED
      : what == "failures_not_printed"   ? PLIMSOLL_NOTICE_FAILURES_NOT_PRINTED
      : what == "report_failed"          ? PLIMSOLL_NOTICE_REPORT_FAILED
                                         : 0;
  if (number == 0) throw std::invalid_argument("no notice '" + what + "'");
  recorder().notice(number, device, count, name_id(text));
}

std::map<std::string, std::string> context() {
  const plimsoll_context& activity = *recorder().context();
  return {{"layer", text_of(activity.layer)},
          {"op", text_of(activity.outer_op)},
          {"forward_op", text_of(activity.forward_op)},
          {"phase", std::string(name_of(base::phase_of(activity.phase)))}};
}

void storage_died(nb::typed<nb::dict, nb::int_, nb::any> storages, nb::int_ key,
                  std::uint8_t device, std::uint64_t address, nb::handle /*reference*/) {
  if (!storages.contains(key)) return;
  nb::del(storages[key]);
  recorder().free(recorder().context(), device, address);
}

void bind_feeding(nb::module_& module) {
  module.def("context", &context, "Return the context of this thread, as names.");
  module.def("stack", &stack_id, nb::arg("frames"),
             "Return the id of a stack, given its frames (file, function, line), innermost first.");
  module.def("function", &function, nb::arg("file"), nb::arg("name"), nb::arg("first_line"),
             "Record where a function in the frames of stacks begins.");
  module.def("module", &module_of_model, nb::arg("path"), nb::arg("type"),
             nb::arg("parameter_bytes"), nb::arg("state"),
             "Record a module of a model. State: a sum of those of plimsoll_module_state.");
  module.def("set_context", &set_context, nb::arg("layer"), nb::arg("op"), nb::arg("stack"),
             nb::arg("op_instance"), nb::arg("phase"), nb::arg("autograd") = 0,
             "Set the context of this thread.");
  module.def("tensor", &tensor_id, nb::arg("role"), nb::arg("name"), nb::arg("dtype"),
             nb::arg("shape"));
  module.def("device", &device_id, nb::arg("type"), nb::arg("ordinal"));
  module.def("notice", &notice, nb::arg("what"), nb::arg("device"), nb::arg("count"),
             nb::arg("text"), "Record a notice that every report of the recording lists.");
  module.def(
      "alloc",
      [](std::uint8_t device, std::uint64_t address, std::uint64_t size_bytes) {
        recorder().alloc(recorder().context(), device, address, size_bytes);
      },
      nb::arg("device"), nb::arg("address"), nb::arg("size_bytes"));
  module.def(
      "free",
      [](std::uint8_t device, std::uint64_t address) {
        recorder().free(recorder().context(), device, address);
      },
      nb::arg("device"), nb::arg("address"));
  module.def("storage_died", &storage_died, nb::arg("storages"), nb::arg("key"), nb::arg("device"),
             nb::arg("address"), nb::arg("reference"),
             "Callback of a weak reference: record the free of a storage in `storages`.");
  module.def(
      "adopt",
      [](std::uint8_t device, std::uint64_t address, std::uint64_t size_bytes,
         std::uint32_t tensor) {
        recorder().adopt(recorder().context(), device, address, size_bytes, tensor);
      },
      nb::arg("device"), nb::arg("address"), nb::arg("size_bytes"), nb::arg("tensor"));
}

}  // namespace
}  // namespace plimsoll::python

NB_MODULE(_record, module) {
  using namespace plimsoll::python;
  module.doc() = "The recorder. Private: use the package.";
  // Objects that a hook of torch retains outlive Python; this is not a leak to warn about.
  nb::set_leak_warnings(false);
  raise_memory_error_for_failed_casts();
  module.def("version", [] { return PLIMSOLL_VERSION; });
  module.def(
      "api_address", [] { return reinterpret_cast<std::uintptr_t>(plimsoll_recorder()); },
      "Return the address of the C interface, for adapters.");
  module.def("is_recording", [] { return recorder().is_recording() != 0; });
  module.def(
      "wants_holders", [] { return recorder().wants_holders() == PLIMSOLL_HOLDERS_NOW; },
      "Return whether somebody has asked for holders, once for each request.");
  module.def("mark_step", &mark_step, nb::arg("number"), "End a step.");
  module.def(
      "mark_own_steps", &mark_own_steps,
      "Note that the program marks its steps; earlier steps, marked by optimizers, do not count.");
  module.def("mark_collection", &mark_collection, nb::arg("phase"), nb::arg("info"),
             "Callback for gc.callbacks: mark the begin or the end of a garbage collection.");
  module.def("begin_region", &begin_region, nb::arg("name"));
  module.def("end_region", &end_region, nb::arg("name"));
  module.def("begin_layer", &begin_layer, nb::arg("path"), "Begin the forward of a layer.");
  module.def("end_layer", &end_layer, nb::arg("path"));
  bind_recordings(module);
  bind_activity(module);
  bind_feeding(module);
  bind_options(module);
  bind_sample(module);
  bind_logs(module);
  bind_monitor(module);
  bind_training(module);
  bind_program_errors(module);
  bind_quiet_writing(module);
  bind_detached_program(module);
}

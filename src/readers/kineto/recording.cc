#include "readers/kineto/recording.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/units.h"
#include "readers/kineto/diagnostics.h"
#include "readers/kineto/number_text.h"

namespace plimsoll::readers::kineto {
namespace {

constexpr std::string_view kOutOfMemory = "[OutOfMemory]";
constexpr std::size_t kMostDevices = 256;  // for one process; more is implausible
constexpr std::string_view kModulePrefix = "nn.Module: ";
// The autograd engine wraps each node in a separate span; users know the node's name.
constexpr std::string_view kEvaluatePrefix = "autograd::engine::evaluate_function: ";

// c10::DeviceType, as far as the model has names for it.
model::DeviceType device_type_of(std::int64_t number) {
  switch (number) {
    case 0:
      return model::DeviceType::kCpu;
    case 1:
      return model::DeviceType::kCuda;
    case 6:
      return model::DeviceType::kHip;
    case 12:
      return model::DeviceType::kXpu;
    case 13:
      return model::DeviceType::kMps;
    case 15:
      return model::DeviceType::kHpu;
    case 19:
      return model::DeviceType::kMtia;
    default:
      return model::DeviceType::kOther;
  }
}

// In 2021, annotations had the form of operators, but these names were never operators.
bool is_annotation_name(std::string_view name) {
  return name.starts_with("ProfilerStep#") || name.starts_with("Optimizer.") ||
         name.starts_with("enumerate(DataLoader)#");
}

std::optional<SpanKind> span_kind_of(const TraceEvent& event) {
  if (event.category == "python_function") {
    return event.name.starts_with(kModulePrefix) ? SpanKind::kModule : SpanKind::kPython;
  }
  if (event.category == "cpu_op" || event.category == "Operator") {
    return is_annotation_name(event.name) ? SpanKind::kAnnotation : SpanKind::kOperator;
  }
  if (event.category == "user_annotation") return SpanKind::kAnnotation;
  return std::nullopt;
}

// "<built-in method dim of Tensor object at 0x7f61>" -> "<built-in method dim of Tensor object>":
// the address would make each call a separate function.
void strip_addresses(std::string& name) {
  constexpr std::string_view kAt = " at 0x";
  for (std::size_t at = name.find(kAt); at != std::string::npos; at = name.find(kAt, at)) {
    const std::size_t end = name.find_first_not_of("0123456789abcdefABCDEF", at + kAt.size());
    name.erase(at, end == std::string::npos ? end : end - at);
  }
}

std::int64_t total_or_not_reported(const std::optional<std::int64_t>& total) {
  return total && *total >= 0 ? *total : MemoryEvent::kNotReported;
}

}  // namespace

void TraceEvent::clear() {
  for (std::string* text : {&phase, &category, &name, &pid, &tid, &time, &duration, &call_stack}) {
    text->clear();
  }
  for (std::optional<std::int64_t>* number :
       {&device_type, &device_id, &bytes, &address, &total_allocated, &total_reserved, &sequence,
        &forward_thread}) {
    number->reset();
  }
}

Error out_of_memory_limit(std::uint64_t limit_bytes) {
  return make_error(ErrorCode::kLimit, "the trace needs more than the " +
                                           base::bytes_text(limit_bytes) + " of memory allowed");
}

Status Recorder::add(const TraceEvent& event) {
  if (++seen_ % 1024 == 0 && recording_.memory_bytes() > memory_limit_) {
    return out_of_memory_limit(memory_limit_);
  }
  if (event.phase == "X") {
    if (const auto kind = span_kind_of(event)) add_span(event, *kind);
  } else if (event.phase == "i" || event.phase == "I") {
    if (event.name == "[memory]" || event.name == kOutOfMemory) add_memory(event);
  }
  return {};
}

void Recorder::add_memory(const TraceEvent& event) {
  const auto time_ns = nanoseconds_of_microseconds(event.time);
  if (!time_ns || !event.bytes || !event.device_type ||
      *event.bytes == std::numeric_limits<std::int64_t>::min() ||
      recording_.devices.size() > kMostDevices ||
      (event.name == kOutOfMemory && *event.bytes < 0)) {
    diagnostics_.add(kBadMemoryEvent, 1, "time \"" + event.time + "\"");
    return;
  }
  if (*event.bytes == 0) {
    diagnostics_.add(kZeroBytes);
    return;
  }
  if (recording_.memory_pids == 0) {
    first_pid_ = event.pid;
    recording_.memory_pids = 1;
  } else if (event.pid != first_pid_) {
    recording_.memory_pids = 2;
  }
  model::Device device;
  device.type = device_type_of(*event.device_type);
  const std::int64_t ordinal = event.device_id.value_or(0);
  device.ordinal = device.type == model::DeviceType::kCpu
                       ? -1
                       : static_cast<std::int32_t>(std::clamp<std::int64_t>(ordinal, -1, 1 << 20));
  MemoryEvent row;
  row.time_ns = *time_ns;
  row.bytes = *event.bytes;
  row.is_out_of_memory = event.name == kOutOfMemory;
  row.has_address = event.address.has_value();
  row.address = static_cast<std::uint64_t>(event.address.value_or(0));
  row.total_allocated = total_or_not_reported(event.total_allocated);
  row.total_reserved = total_or_not_reported(event.total_reserved);
  row.thread = thread_of(event);
  row.device = device_row(device);
  recording_.events.push_back(row);
}

void Recorder::add_span(const TraceEvent& event, SpanKind kind) {
  const auto begin_ns = nanoseconds_of_microseconds(event.time);
  const auto duration_ns = nanoseconds_of_microseconds(event.duration);
  std::int64_t end_ns = 0;
  if (!begin_ns || !duration_ns || *duration_ns < 0 ||
      __builtin_add_overflow(*begin_ns, *duration_ns, &end_ns)) {
    diagnostics_.add(kBadSpan, 1, event.name);
    return;
  }
  Span row;
  row.begin_ns = *begin_ns;
  row.end_ns = end_ns;
  row.name = name_of(event.name, kind);
  row.call_stack = recording_.names.intern(event.call_stack);
  row.thread = thread_of(event);
  row.kind = kind;
  if (kind == SpanKind::kOperator && event.sequence.value_or(-1) >= 0) {
    row.sequence = *event.sequence;
    row.is_backward = event.forward_thread.value_or(0) != 0;
  }
  recording_.spans.push_back(row);
}

std::uint32_t Recorder::device_row(model::Device device) {
  auto& devices = recording_.devices;  // only a few
  const auto found = std::ranges::find(devices, device);
  if (found == devices.end()) {
    devices.push_back(device);
    return static_cast<std::uint32_t>(devices.size() - 1);
  }
  return static_cast<std::uint32_t>(found - devices.begin());
}

// A thread id may be a number or a string of the same digits; both are the same thread.
ThreadId Recorder::thread_of(const TraceEvent& event) {
  scratch_.assign(event.pid);
  scratch_ += '/';
  scratch_ += event.tid;
  return recording_.threads.intern(scratch_);
}

NameId Recorder::name_of(std::string_view name, SpanKind kind) {
  switch (kind) {
    case SpanKind::kModule:
      name.remove_prefix(kModulePrefix.size());
      break;
    case SpanKind::kOperator:
      if (name.starts_with(kEvaluatePrefix)) name.remove_prefix(kEvaluatePrefix.size());
      break;
    case SpanKind::kPython:
      scratch_.assign(name);
      strip_addresses(scratch_);
      name = scratch_;
      break;
    case SpanKind::kAnnotation:
      break;
  }
  return recording_.names.intern(name);
}

}  // namespace plimsoll::readers::kineto

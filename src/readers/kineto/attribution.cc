#include "readers/kineto/attribution.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include "model/user_line.h"
#include "readers/kineto/diagnostics.h"

namespace plimsoll::readers::kineto {
namespace {

constexpr std::size_t kLongestPath = 4096;  // longer module paths are implausible

// "path/file.py(123): func", as torch.profiler names a Python call.
struct PythonName {
  std::string_view file;
  std::string_view function;
  std::uint32_t line = 0;
};

PythonName parse_python_name(std::string_view text) {
  for (std::size_t at = text.find('('); at != std::string_view::npos; at = text.find('(', at + 1)) {
    std::uint32_t line = 0;
    const char* const end = text.data() + text.size();
    const auto [digits_end, error] = std::from_chars(text.data() + at + 1, end, line);
    if (error != std::errc()) continue;
    const std::string_view rest(digits_end, static_cast<std::size_t>(end - digits_end));
    if (rest.starts_with("): ")) return {text.substr(0, at), rest.substr(3), line};
  }
  return {{}, text, 0};  // "<built-in method linear>": no Python line
}

bool is_start_of_profiler(std::string_view name) {
  return name.ends_with(": _start_trace") && name.starts_with("torch/autograd/profiler.py(");
}

// Dispatched operators are named "library::name", or are nodes of the autograd graph.
bool is_dispatched(std::string_view name) {
  return name.find("::") != std::string_view::npos ||
         name.find("Backward") != std::string_view::npos;
}

}  // namespace

Attribution::Attribution(const Recording& recording, model::TraceBuilder& builder,
                         base::Diagnostics& diagnostics, std::uint64_t memory_limit)
    : recording_(recording),
      builder_(builder),
      diagnostics_(diagnostics),
      memory_limit_(memory_limit),
      index_(recording),
      places_(recording.events.size()),
      frame_ids_(recording.names.size()),
      frame_is_made_(recording.names.size()) {}

Result<std::vector<Place>> Attribution::run(base::Progress& progress) {
  find_python_threads();
  find_beginning();
  find_forward_operators();
  std::vector<TimePoint> points;
  for (std::uint32_t row = 0; row < recording_.events.size(); ++row) {
    const MemoryEvent& event = recording_.events[row];
    if (event.bytes > 0) points.push_back({event.thread, event.time_ns, row});
  }
  PLIMSOLL_TRY(place_all(points, progress, [this](const TimePoint& point, const Enclosing& around) {
    place_own(point, around);
  }));
  PLIMSOLL_TRY(place_all(
      loan_times_, progress,
      [this](const TimePoint& point, const Enclosing& around) { place_loan(point, around); }));
  return std::move(places_);
}

template <typename PlaceOne>
Status Attribution::place_all(std::vector<TimePoint>& points, base::Progress& progress,
                              PlaceOne&& place) {
  std::uint64_t placed = 0;
  Status status;
  index_.sweep(points, [&](const TimePoint& point, const Enclosing& enclosing) {
    if (!status) return;
    if (++placed % 1024 == 0) {
      progress.advance("attributing allocations", placed, points.size());
      const std::uint64_t used = recording_.memory_bytes() + builder_.stacks().memory_bytes();
      if (progress.interrupted()) {
        status = make_error(ErrorCode::kInterrupted, "stopped while attributing allocations");
      } else if (used > memory_limit_) {
        status = out_of_memory_limit(memory_limit_);
      }
    }
    place(point, enclosing);
  });
  return status;
}

// Kineto records the calls of threads that it cannot identify under thread 0, and no others there.
void Attribution::find_python_threads() {
  has_python_.assign(recording_.threads.size(), false);
  for (const Span& span : recording_.spans) {
    if (span.kind == SpanKind::kPython) has_python_[span.thread.index()] = true;
  }
  std::vector<ThreadId> named, nameless;
  for (std::uint32_t row = 0; row < has_python_.size(); ++row) {
    if (!has_python_[row]) continue;
    (recording_.threads[ThreadId{row}].ends_with("/0") ? nameless : named).push_back({row});
  }
  const auto& candidates = named.empty() ? nameless : named;
  if (candidates.size() == 1) only_python_thread_ = candidates.front();
}

// torch.profiler adds the calls that are open when it begins, the last of them its own.
void Attribution::find_beginning() {
  const Span* first = nullptr;
  for (const Span& span : recording_.spans) {
    if (span.kind != SpanKind::kPython || !is_start_of_profiler(recording_.names[span.name]))
      continue;
    if (first == nullptr || span.begin_ns < first->begin_ns) first = &span;
  }
  if (first != nullptr) profiling_begins_ns_ = first->begin_ns;
}

void Attribution::find_forward_operators() {
  const auto& spans = recording_.spans;
  for (std::uint32_t row = 0; row < spans.size(); ++row) {
    if (spans[row].sequence != Span::kNoSequence && !spans[row].is_backward) {
      forward_.push_back(row);
    }
  }
  std::ranges::sort(forward_, {}, [&](std::uint32_t row) {
    return std::tuple(spans[row].sequence, spans[row].begin_ns, row);
  });
}

// The innermost enclosing node of the autograd graph.
const Span* Attribution::backward_node(const Enclosing& enclosing) const {
  for (auto row = enclosing.operators.rbegin(); row != enclosing.operators.rend(); ++row) {
    const Span& span = recording_.spans[*row];
    if (span.is_backward) return &span;
  }
  return nullptr;
}

// The last forward operator with the node's sequence number that began before it.
const Span* Attribution::forward_of(const Span& backward) const {
  const auto& spans = recording_.spans;
  const auto after = std::ranges::lower_bound(
      forward_, std::pair(backward.sequence, backward.begin_ns), {},
      [&](std::uint32_t row) { return std::pair(spans[row].sequence, spans[row].begin_ns); });
  if (after == forward_.begin()) return nullptr;
  const Span& forward = spans[*(after - 1)];
  return forward.sequence == backward.sequence ? &forward : nullptr;
}

void Attribution::place_own(const TimePoint& point, const Enclosing& enclosing) {
  Place& place = places_[point.row];
  place.op = operator_of(enclosing);
  place.layer = layer_of(enclosing);
  frames_.clear();
  const Span* const node = backward_node(enclosing);
  const Span* const forward = node == nullptr ? nullptr : forward_of(*node);
  const bool has_python_in_node =
      node != nullptr && !enclosing.python.empty() &&
      recording_.spans[enclosing.python.back()].begin_ns > node->begin_ns;
  if (forward != nullptr && !has_python_in_node) {
    add_operator_frames(enclosing);
    borrow(point, forward);
  } else if (!add_frames(enclosing, place.op) && !has_python_[point.thread.index()] &&
             only_python_thread_ != ThreadId{}) {
    borrow(point, nullptr);
  } else if (!frames_.empty()) {
    place.stack = builder_.stacks().intern_stack(frames_);
  }
}

// Records a loan: the rest of the stack comes from the forward operator or, without one, from the
// only Python thread.
void Attribution::borrow(const TimePoint& point, const Span* forward) {
  const auto row = static_cast<std::uint32_t>(loans_.size());
  loans_.push_back({point.row, static_cast<std::uint32_t>(loan_frames_.size()),
                    static_cast<std::uint32_t>(frames_.size()), forward != nullptr});
  loan_frames_.insert(loan_frames_.end(), frames_.begin(), frames_.end());
  loan_times_.push_back(forward != nullptr ? TimePoint{forward->thread, forward->begin_ns, row}
                                           : TimePoint{only_python_thread_, point.time_ns, row});
}

void Attribution::place_loan(const TimePoint& point, const Enclosing& enclosing) {
  const Loan& loan = loans_[point.row];
  Place& place = places_[loan.event];
  const auto own = loan_frames_.begin() + loan.first_frame;
  frames_.assign(own, own + loan.frame_count);
  const model::StringId of_forward = operator_of(enclosing);
  const bool found =
      add_python_frames(enclosing, of_forward == model::StringId{} ? place.op : of_forward);
  if (loan.is_forward) place.layer = layer_of(enclosing);  // the node's own thread has no layer
  if (found) diagnostics_.add(loan.is_forward ? kChargedToForward : kPythonOfOtherThread);
  if (!frames_.empty()) place.stack = builder_.stacks().intern_stack(frames_);
}

// Python calls and operators, merged by their start times.
bool Attribution::add_frames(const Enclosing& enclosing, model::StringId op) {
  const auto& spans = recording_.spans;
  std::size_t python = enclosing.python.size();
  std::size_t operators = enclosing.operators.size();
  bool found_python = false;
  auto inner = [&](std::uint32_t row) {
    return std::pair(spans[row].begin_ns, -spans[row].end_ns);
  };
  while (python > 0 || operators > 0) {
    const bool is_operator =
        operators > 0 && (python == 0 || inner(enclosing.operators[operators - 1]) >=
                                             inner(enclosing.python[python - 1]));
    const Span& span =
        spans[is_operator ? enclosing.operators[--operators] : enclosing.python[--python]];
    if (span.kind == SpanKind::kModule) continue;
    found_python = found_python || span.kind == SpanKind::kPython;
    add_python_frame(span, op);
  }
  return found_python || add_python_frames(enclosing, op);
}

// A call that was open when profiling began has no line. The operator distinguishes what its
// innermost function makes.
void Attribution::add_python_frame(const Span& span, model::StringId op) {
  const model::FrameId id = frame_of(span.name);
  if (!was_open(span)) return frames_.push_back(id);
  const model::StackTable& stacks = builder_.stacks();
  const auto is_of_program = [&](model::FrameId each) {
    const auto origin = model::origin_of(builder_.strings()[stacks.frame(each).file]);
    return origin == model::FrameOrigin::kUser || origin == model::FrameOrigin::kLibrary;
  };
  const bool is_innermost = is_of_program(id) && std::ranges::none_of(frames_, is_of_program);
  if (is_innermost) diagnostics_.add(kOpenFunctions);
  const model::StringId named = is_innermost ? op : model::StringId{};
  const auto [open, is_new] = open_frames_.try_emplace({span.name.index(), named.index()});
  if (is_new) {
    model::Frame frame = stacks.frame(id);
    frame.line = model::kUnknownLine;
    if (named != model::StringId{}) {
      const std::string function(builder_.strings()[frame.function]);
      frame.function =
          builder_.strings().intern(function + ": " + std::string(builder_.strings()[named]));
    }
    open->second = builder_.stacks().intern_frame(frame);
  }
  frames_.push_back(open->second);
}

bool Attribution::add_python_frames(const Enclosing& enclosing, model::StringId op) {
  const std::size_t before = frames_.size();
  for (auto row = enclosing.python.rbegin(); row != enclosing.python.rend(); ++row) {
    const Span& span = recording_.spans[*row];
    if (span.kind == SpanKind::kPython) add_python_frame(span, op);
  }
  if (frames_.size() > before) return true;
  for (auto row = enclosing.operators.rbegin(); row != enclosing.operators.rend(); ++row) {
    const Span& span = recording_.spans[*row];
    if (span.call_stack == NameId{}) continue;
    add_call_stack(span.call_stack);
    break;
  }
  return frames_.size() > before;
}

void Attribution::add_operator_frames(const Enclosing& enclosing) {
  for (auto row = enclosing.operators.rbegin(); row != enclosing.operators.rend(); ++row) {
    frames_.push_back(frame_of(recording_.spans[*row].name));
  }
}

// "file.py(1): f;file.py(2): g", innermost first.
void Attribution::add_call_stack(NameId call_stack) {
  std::string_view rest = recording_.names[call_stack];
  for (std::size_t count = 0; count < kDeepestStack && !rest.empty(); ++count) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    if (end > 0) frames_.push_back(frame_of(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

model::FrameId Attribution::frame_of(NameId name) {
  if (!frame_is_made_[name.index()]) {
    frame_ids_[name.index()] = frame_of(recording_.names[name]);
    frame_is_made_[name.index()] = true;
  }
  return frame_ids_[name.index()];
}

model::FrameId Attribution::frame_of(std::string_view text) {
  const PythonName python = parse_python_name(text);
  model::Frame frame;
  frame.file = builder_.strings().intern(python.file);
  frame.function = builder_.strings().intern(python.function);
  frame.line = python.line;
  return builder_.stacks().intern_frame(frame);
}

model::StringId Attribution::operator_of(const Enclosing& enclosing) {
  if (enclosing.operators.empty()) return {};
  for (std::uint32_t row : enclosing.operators) {
    const std::string_view name = recording_.names[recording_.spans[row].name];
    if (is_dispatched(name)) return builder_.strings().intern(name);
  }
  const Span& outermost = recording_.spans[enclosing.operators.front()];
  return builder_.strings().intern(recording_.names[outermost.name]);
}

model::StringId Attribution::layer_of(const Enclosing& enclosing) {
  path_.clear();
  for (std::uint32_t row : enclosing.python) {
    const Span& span = recording_.spans[row];
    if (span.kind != SpanKind::kModule) continue;
    if (!path_.empty()) path_ += '.';
    path_ += recording_.names[span.name];
    if (path_.size() > kLongestPath) break;
  }
  return builder_.strings().intern(path_);
}

}  // namespace plimsoll::readers::kineto

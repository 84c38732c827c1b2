#include "findings/advice/repeated_forward.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/hash.h"
#include "base/path_text.h"
#include "findings/advice/packages.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/function_name.h"
#include "model/inner_lines.h"
#include "model/user_line.h"

namespace plimsoll::findings {
namespace {

constexpr std::size_t kFewestCalls = 2;
// A forward with a smaller share is only one of many.
constexpr double kLeastOfForward = 0.2;
// If a forward inside another allocates this share of it, the inner one is the layer and the outer
// one only calls it. The main part of a layer, such as its MLP, allocates less.
constexpr double kShareOfInner = 0.95;
constexpr std::size_t kMostCandidates = 12;

// A forward and the frame that calls it. In most models, this identifies the call sites of one
// module class.
struct Forward {
  std::uint32_t file = 0;
  std::uint32_t function = 0;
  std::uint32_t caller = 0;
  auto operator<=>(const Forward&) const = default;
};

// Where a stack passes through a forward.
struct Passage {
  Forward forward;
  std::size_t at = 0;        // frame of the stack
  std::size_t depth = 0;     // from the outermost frame
  std::uint32_t line = 0;    // of the forward
  std::uint64_t inside = 0;  // hash of the frames inside the forward
};

// Frames of torch between a module and its caller, and those of the interpreter.
bool is_between(std::string_view file) {
  return base::ends_with_path(file, "torch/nn/modules/module.py") ||
         model::origin_of(file) == model::FrameOrigin::kNative;
}

// forward, forward_features.
bool is_of_forward(std::string_view function) {
  return function.substr(function.rfind('.') + 1).starts_with("forward");
}

// Frames between a module and the code that calls it.
bool is_wrapper(std::string_view function) {
  static constexpr std::array<std::string_view, 6> kWrappers = {
      "wrapper", "__call__", "_call_impl", "_wrapped_call_impl", "_fn", "inner"};
  return std::ranges::find(kWrappers, function) != kWrappers.end();
}

// Lists passages outermost first; a forward that calls itself counts once.
std::vector<Passage> passages_of(const model::Trace& trace, model::StackId stack) {
  const auto frames = trace.stacks.frames(stack);
  std::vector<Passage> passages;
  std::uint64_t inside = 0;
  for (std::size_t at = 0; at < frames.size(); ++at) {
    const model::Frame& frame = trace.stacks.frame(frames[at]);
    const std::uint64_t below = inside;
    inside = base::hash_mix(inside + frames[at].value, 0x9E3779B97F4A7C15u);
    if (!model::is_forward(trace.strings[frame.function])) continue;
    const std::string_view file = trace.strings[frame.file];
    const bool is_torch = model::origin_of(file) == model::FrameOrigin::kTorch;
    if (is_torch && !base::ends_with_path(file, "torch/nn/modules/transformer.py")) continue;
    std::size_t caller = at + 1;
    while (caller < frames.size() &&
           is_between(trace.strings[trace.stacks.frame(frames[caller]).file])) {
      ++caller;
    }
    // A layer is part of a model, whose forward calls it. Repeated calls of the whole model are not
    // layers.
    const bool is_inside = std::ranges::any_of(frames.subspan(at + 1), [&](model::FrameId id) {
      return is_of_forward(trace.strings[trace.stacks.frame(id).function]);
    });
    if (!is_inside) continue;
    const Forward forward{frame.file.value, frame.function.value, frames[caller].value};
    std::erase_if(passages, [&](const Passage& each) { return each.forward == forward; });
    passages.push_back({forward, at, frames.size() - at, frame.line, below});
  }
  std::ranges::reverse(passages);
  return passages;
}

// One allocation of a forward.
struct Made {
  std::uint32_t lifetime = 0;
  std::uint32_t born = 0;
  std::uint32_t died = 0;
  std::uint32_t line = 0;
  std::uint64_t inside = 0;
  std::uint64_t size_bytes = 0;
  bool is_activation = false;
};

// The calls of a forward, as ranges of its allocations. A call begins where the stack is back at
// the forward's first line; if the forward has only one line, at the first thing it called.
std::vector<std::pair<std::size_t, std::size_t>> calls_of(const std::vector<Made>& made) {
  std::vector<std::pair<std::size_t, std::size_t>> calls;
  if (made.empty()) return calls;
  const std::uint32_t first = std::ranges::min(made, {}, &Made::line).line;
  const bool is_one_line = std::ranges::max(made, {}, &Made::line).line == first;
  const auto is_first = [&](const Made& each) {
    return is_one_line ? each.inside == made.front().inside : each.line == first;
  };
  std::size_t begin = 0;
  for (std::size_t at = 1; at <= made.size(); ++at) {
    const bool is_begin = at == made.size() || (is_first(made[at]) && !is_first(made[at - 1]));
    if (!is_begin) continue;
    calls.emplace_back(begin, at);
    begin = at;
  }
  return calls;
}

class Search {
 public:
  Search(const Peak& peak, const Explanation& explanation)
      : peak_(peak), explanation_(explanation), passages_(peak.trace().stacks.stack_count()) {
    for (const std::uint32_t part : explanation.parts) {
      const PeakAllocation& allocation = peak.live()[part];
      if (allocation.born == model::kNone) continue;
      for (const Passage& passage : passages(allocation.stack)) {
        Candidate& candidate = candidates_[passage.forward];
        candidate.bytes += allocation.size_bytes;
        candidate.depth = passage.depth;
        candidate.parts.push_back(part);
      }
    }
  }

  std::optional<RepeatedForward> find() {
    std::vector<const Entry*> likely;
    for (const Entry& each : candidates_) {
      if (is_at_least(each.second.bytes, kLeastOfForward, explanation_.bytes)) {
        likely.push_back(&each);
      }
    }
    std::ranges::stable_sort(likely, {}, [](const Entry* each) { return each->second.depth; });
    likely.resize(std::min(likely.size(), kMostCandidates));
    std::optional<RepeatedForward> best;
    const Entry* of_best = nullptr;
    for (const Entry* each : likely) {
      RepeatedForward found = describe(each->first, each->second);
      if (found.calls < kFewestCalls) continue;
      if (best && !is_at_least(found.bytes, kShareOfInner, best->bytes)) continue;
      if (best && found.bytes <= best->bytes && found.calls < best->calls) continue;
      best = std::move(found);
      of_best = each;
    }
    if (best) finish(of_best->first, of_best->second, *best);
    return best;
  }

 private:
  struct Candidate {
    std::uint64_t bytes = 0;
    std::size_t depth = 0;
    std::vector<std::uint32_t> parts;
  };
  using Entry = std::pair<const Forward, Candidate>;

  const std::vector<Passage>& passages(model::StackId stack) {
    auto& known = passages_[stack.index()];
    if (!known) known = passages_of(peak_.trace(), stack);
    return *known;
  }

  std::vector<Made> made_by(const Forward& forward) {
    std::vector<Made> made;
    peak_.for_each([&](const PeakAllocation& each) {
      const auto& of_stack = passages(each.stack);
      const auto passage = std::ranges::find(of_stack, forward, &Passage::forward);
      if (passage == of_stack.end()) return;
      made.push_back({each.lifetime, each.born, each.died, passage->line, passage->inside,
                      each.size_bytes, peak_.category(each) == model::kActivation});
    });
    return made;
  }

  // The bytes of each call that belong to the explanation, for calls in the step of the peak.
  // Earlier steps may have left some memory, so the step is the interval between backwards that
  // contains the call with the most tensors. If the peak is in a backward, the last calls have
  // already been freed.
  std::vector<std::uint64_t> calls_in_step(
      const Candidate& candidate, const std::vector<Made>& made,
      const std::vector<std::pair<std::size_t, std::size_t>>& calls) const {
    struct Kept {
      std::uint32_t born;  // the first allocation of the call
      std::size_t tensors = 0;
      std::uint64_t bytes = 0;
    };
    std::vector<Kept> kept;
    std::size_t part = 0;  // parts are sorted by birth
    for (const auto& [begin, end] : calls) {
      if (made[begin].born > peak_.event()) break;
      Kept& call = kept.emplace_back(Kept{made[begin].born});
      for (; part < candidate.parts.size(); ++part) {
        const PeakAllocation& allocation = peak_.live()[candidate.parts[part]];
        if (allocation.born > made[end - 1].born) break;
        ++call.tensors;
        call.bytes += allocation.size_bytes;
      }
    }
    std::vector<std::uint64_t> bytes;
    if (kept.empty()) return bytes;
    const auto fullest = std::ranges::max_element(kept, {}, &Kept::tensors);
    const std::vector<std::uint32_t>& begins = backward_births();
    const auto next = std::ranges::upper_bound(begins, fullest->born);
    for (const Kept& call : kept) {
      const bool is_before = next != begins.begin() && call.born < *std::prev(next);
      const bool is_after = next != begins.end() && call.born > *next;
      // If no backward is recorded, only the number of kept tensors separates the steps.
      const bool is_old = begins.empty() && call.tensors * 2 < fullest->tensors;
      if (is_before || is_after || is_old) continue;
      bytes.push_back(call.bytes);
    }
    return bytes;
  }

  RepeatedForward describe(const Forward& forward, const Candidate& candidate) {
    RepeatedForward found;
    found.bytes = candidate.bytes;
    found.parts = candidate.parts;
    const std::vector<Made> made = made_by(forward);
    const auto calls = calls_of(made);
    const auto in_step = calls_in_step(candidate, made, calls);
    found.calls = in_step.size();
    if (found.calls < kFewestCalls) return found;
    found.bytes = std::accumulate(in_step.begin(), in_step.end(), std::uint64_t{0});
    found.smallest_bytes = std::ranges::min(in_step);
    found.largest_bytes = std::ranges::max(in_step);
    return found;
  }

  void finish(const Forward& forward, const Candidate& candidate, RepeatedForward& found) {
    name(forward, candidate, found);
    const std::vector<Made> made = made_by(forward);
    found.saving_bytes = saving(made, calls_of(made));
    found.runs_in_checkpoint = std::ranges::any_of(candidate.parts, [&](std::uint32_t part) {
      return peak_.stacks().has(peak_.live()[part].stack, evidence::StackFlag::kCheckpoint);
    });
  }

  void name(const Forward& forward, const Candidate& candidate, RepeatedForward& found) {
    const model::Trace& trace = peak_.trace();
    const model::StackId stack = peak_.live()[candidate.parts.front()].stack;
    const auto frames = trace.stacks.frames(stack);
    const Passage& passage = *std::ranges::find(passages(stack), forward, &Passage::forward);
    std::uint32_t first = passage.line, last = passage.line;
    model::FrameId top = frames[passage.at];
    for (const std::uint32_t part : candidate.parts) {
      const model::StackId other = peak_.live()[part].stack;
      const Passage& each = *std::ranges::find(passages(other), forward, &Passage::forward);
      last = std::max(last, each.line);
      if (each.line >= first) continue;
      first = each.line;
      top = trace.stacks.frames(other)[each.at];
    }
    found.place = model::package_line(trace, top);
    const std::size_t function_at = found.place.rfind(" (");
    if (last != first) found.place.insert(function_at, " to " + std::to_string(last));
    if (found.place.ends_with(" (forward)")) found.place.erase(found.place.rfind(" ("));
    for (std::size_t at = passage.at + 1; at < frames.size(); ++at) {
      const model::Frame& frame = trace.stacks.frame(frames[at]);
      const std::string_view function = trace.strings[frame.function];
      const model::FrameOrigin origin = model::origin_of(trace.strings[frame.file]);
      if (origin == model::FrameOrigin::kTorch || origin == model::FrameOrigin::kNative) continue;
      if (is_wrapper(function.substr(function.rfind('.') + 1))) continue;
      found.caller = model::package_line(trace, frames[at]);
      break;
    }
  }

  std::uint64_t saving(const std::vector<Made>& made,
                       const std::vector<std::pair<std::size_t, std::size_t>>& calls) const {
    const std::vector<std::uint32_t>& begins = backward_births();
    std::vector<whatif::Run> runs;
    std::size_t largest = calls.size();  // of the runs that no backward follows
    std::uint64_t largest_bytes = 0;
    for (const auto& [begin, end] : calls) {
      whatif::Run run;
      run.done = made[end - 1].born;
      const auto next = std::ranges::upper_bound(begins, run.done);
      const std::uint32_t backward = next == begins.end() ? model::kNone : *next;
      std::uint64_t bytes = 0;
      for (std::size_t at = begin; at < end; ++at) {
        if (!made[at].is_activation || made[at].died < backward) continue;
        run.rows.push_back(made[at].lifetime);
        run.again = std::min(run.again, made[at].died);
        bytes += made[at].size_bytes;
      }
      if (backward == model::kNone && bytes >= largest_bytes) {
        largest_bytes = bytes, largest = runs.size();
      }
      runs.push_back(std::move(run));
    }
    if (largest < runs.size()) runs[largest].rows.clear();
    return peak_.replay().recomputed(runs);
  }

  // Events at which autograd allocates, ascending.
  const std::vector<std::uint32_t>& backward_births() const {
    if (!backward_) {
      backward_.emplace();
      peak_.for_each([&](const PeakAllocation& each) {
        const std::string_view category = peak_.category(each);
        const bool is_gradient =
            category == model::kGradient || category == model::kActivationGradient;
        if (is_gradient) backward_->push_back(each.born);
      });
    }
    return *backward_;
  }

  const Peak& peak_;
  const Explanation& explanation_;
  std::vector<std::optional<std::vector<Passage>>> passages_;  // by stack
  std::map<Forward, Candidate> candidates_;
  mutable std::optional<std::vector<std::uint32_t>> backward_;
};

}  // namespace

std::optional<RepeatedForward> repeated_forward(const Peak& peak, const Explanation& explanation) {
  return Search(peak, explanation).find();
}

}  // namespace plimsoll::findings

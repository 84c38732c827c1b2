// The layers of a snapshot: a forward that another one calls repeatedly, as a deep model does with
// its blocks.
#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "base/units.h"
#include "findings/advice/checkpoints.h"
#include "findings/text.h"
#include "model/categories.h"
#include "model/function_name.h"
#include "model/inner_lines.h"
#include "model/user_line.h"

namespace plimsoll::findings {
namespace {

// A forward with a smaller share is only one of many.
constexpr double kLeastOfForward = 0.2;
// If a forward inside another allocates this share of it, the inner one is the layer and the outer
// one only calls it. The main part of a layer, such as its MLP, allocates less.
constexpr double kShareOfInner = 0.95;

// A forward and the frame of the forward that calls it. In most models, this identifies the call
// sites of one module class.
struct Forward {
  std::uint32_t file = 0;
  std::uint32_t function = 0;
  std::uint32_t caller = 0;
  auto operator<=>(const Forward&) const = default;
};

// Where a stack passes through a forward.
struct Passage {
  Forward forward;
  std::size_t at = 0;      // frame of the stack
  std::size_t depth = 0;   // from the outermost frame
  std::uint32_t line = 0;  // of the forward
};

// The forwards inside other forwards, outermost first; one that calls itself counts once. Repeated
// calls of the whole model are not layers.
std::vector<Passage> passages_of(const model::Trace& trace, model::StackId stack) {
  const auto frames = trace.stacks.frames(stack);
  std::vector<Passage> passages;
  std::uint32_t caller = 0;  // the frame of the forward around it
  for (std::size_t at = frames.size(); at-- > 0;) {
    const model::Frame& frame = trace.stacks.frame(frames[at]);
    const std::string_view function = trace.strings[frame.function];
    // forward, forward_features
    if (!function.substr(function.rfind('.') + 1).starts_with("forward")) continue;
    const Forward forward{frame.file.value, frame.function.value,
                          std::exchange(caller, frames[at].value)};
    const bool is_torch = model::origin_of(trace.strings[frame.file]) == model::FrameOrigin::kTorch;
    if (forward.caller == 0 || is_torch || !model::is_forward(function)) continue;
    if (std::ranges::find(passages, forward, &Passage::forward) != passages.end()) continue;
    passages.push_back({forward, at, frames.size() - at, frame.line});
  }
  return passages;
}

// What a forward makes in the whole recording.
struct Made {
  Allocation allocation;
  Passage passage;
};

// The calls of a forward, as ranges of what it makes. A call begins where the stack is back at the
// forward's first line; if the forward has only one line, at the first thing it called.
std::vector<std::span<const Made>> calls_of(std::span<const Made> made) {
  std::vector<std::span<const Made>> calls;
  const auto line = [](const Made& each) { return each.passage.line; };
  const auto [first, last] = std::ranges::minmax(made, {}, line);
  const auto is_first = [&](const Made& each) {
    return line(first) == line(last) ? each.allocation.stack == made.front().allocation.stack
                                     : line(each) == line(first);
  };
  std::size_t begin = 0;
  for (std::size_t at = 1; at <= made.size(); ++at) {
    const bool is_end = at == made.size() || (is_first(made[at]) && !is_first(made[at - 1]));
    if (!is_end) continue;
    calls.push_back(made.subspan(begin, at - begin));
    begin = at;
  }
  return calls;
}

// The bytes that are live at the peak of each call in its step.
std::vector<std::uint64_t> live_of_calls(const Peak& peak, std::span<const Made> made) {
  std::vector<std::pair<std::size_t, std::uint64_t>> live;  // tensors, bytes
  std::size_t most = 0;
  for (const auto& call : calls_of(made)) {
    auto& [tensors, bytes] = live.emplace_back();
    for (const auto& [each, passage] : call) {
      if (each.born > peak.event() || each.died <= peak.event()) continue;
      if (!each.is(model::kActivation)) continue;
      ++tensors;
      bytes += each.size_bytes;
    }
    most = std::max(most, tensors);
  }
  std::vector<std::uint64_t> of_step;
  for (const auto& [tensors, bytes] : live) {
    // Calls of earlier steps may have left results.
    if (tensors > 0 && tensors * 2 >= most) of_step.push_back(bytes);
  }
  return of_step;
}

// "transformers/models/llama/modeling_llama.py:306 to 322".
std::string place_of(const model::Trace& trace, std::span<const Made> made) {
  const auto line = [](const Made& each) { return each.passage.line; };
  const auto [first, last] = std::ranges::minmax(made, {}, line);
  const auto frames = trace.stacks.frames(first.allocation.stack);
  std::string place = model::package_line(trace, frames[first.passage.at]);
  const std::size_t function_at = place.rfind(" (");
  if (line(first) != line(last)) place.insert(function_at, " to " + std::to_string(line(last)));
  if (place.ends_with(" (forward)")) place.erase(place.rfind(" ("));
  return place;
}

}  // namespace

std::optional<Checkpoint> forward_to_checkpoint(const Peak& peak, const Explanation& explanation,
                                                report::Finding& finding) {
  const model::Trace& trace = peak.trace();
  std::map<model::StackId, std::vector<Passage>> passages;
  std::map<Forward, std::vector<Made>> forwards;
  std::vector<std::uint32_t> begins;  // of backwards: events at which autograd allocates
  peak.for_each([&](const Allocation& each) {
    if (each.is(model::kGradient, model::kActivationGradient)) begins.push_back(each.born);
    const auto [of_stack, is_new] = passages.try_emplace(each.stack);
    if (is_new) of_stack->second = passages_of(trace, each.stack);
    for (const Passage& passage : of_stack->second) {
      forwards[passage.forward].push_back({each, passage});
    }
  });
  const std::vector<Made>* best = nullptr;
  std::vector<std::uint64_t> of_best;
  std::uint64_t bytes = 0;
  for (const auto& [forward, made] : forwards) {
    std::vector<std::uint64_t> found = live_of_calls(peak, made);
    const std::uint64_t sum = std::accumulate(found.begin(), found.end(), std::uint64_t{0});
    if (found.size() < 2 || !is_at_least(sum, kLeastOfForward, explanation.bytes)) continue;
    const bool is_deeper =
        best != nullptr && made.front().passage.depth > best->front().passage.depth;
    const bool is_better = is_deeper ? is_at_least(sum, kShareOfInner, bytes)
                                     : !is_at_least(bytes, kShareOfInner, sum);
    if (best != nullptr && !is_better) continue;
    best = &made;
    bytes = sum;
    of_best = std::move(found);
  }
  if (best == nullptr) return std::nullopt;
  const std::string place = place_of(trace, *best);
  finding.evidence.push_back(base::format_count(of_best.size()) + " calls of forward at " + place +
                             " hold " + sizes_text(of_best) + ".");
  Checkpoint checkpoint;
  checkpoint.what = "the module whose forward is at " + place;
  checkpoint.parts = explanation.parts;
  Runs runs(peak, std::move(begins), model::kNone - 1);
  std::uint32_t number = 0;
  for (const auto& call : calls_of(*best)) {
    for (const auto& [each, passage] : call) {
      if (each.has(evidence::StackFlag::kCheckpoint)) return checkpoint;
      if (each.category() == model::kActivation) runs.add(number, each);
    }
    ++number;
  }
  checkpoint.saving_bytes = runs.saving();
  return checkpoint;
}

}  // namespace plimsoll::findings

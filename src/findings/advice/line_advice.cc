#include "findings/advice/advice.h"
#include "findings/advice/checkpoints.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/units.h"
#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

using evidence::Operator;
using evidence::StackFlag;

// Tensors of one size that one layer makes or, outside all layers, one function: the steps of one
// computation.
struct MadeAt {
  std::uint32_t line = 0;  // for places of one line only
  std::uint32_t layer = 0;
  std::uint32_t file = 0;
  std::uint32_t function = 0;
  std::uint64_t size_bytes = 0;
  auto operator<=>(const MadeAt&) const = default;
};
using Places = std::set<MadeAt>;

MadeAt place_of(const Allocation& each) {
  const model::StringId layer = each.site().layer;
  if (layer != model::StringId{}) return {.layer = layer.value, .size_bytes = each.size_bytes};
  const model::Frame& frame = each.known->trace.stacks.frame(each.known->lines.frame(each.stack));
  return {
      .file = frame.file.value, .function = frame.function.value, .size_bytes = each.size_bytes};
}

MadeAt line_of(const Allocation& each) {
  return {.line = each.line().value, .size_bytes = each.size_bytes};
}

// What an operator of torch would compute without storing it.
struct Substituted {
  Places scores;   // of attention: a softmax of a batched product, in any dtype
  Places pairs;    // differences of all pairs
  Places one_hot;  // also in another dtype
};

Substituted substituted(const Peak& peak) {
  Substituted found;
  Places softmaxes, products, dropouts;
  std::set<std::uint32_t> lines;                      // of one-hot tensors
  std::map<std::uint64_t, std::uint32_t> last_death;  // by size
  peak.for_each([&](const Allocation& each) {
    std::uint32_t& death = last_death[each.size_bytes];
    const bool is_larger_than_operands = death <= each.born;
    death = std::max(death, each.died);
    if (each.size_bytes < kSmallTensorBytes || !each.has_line()) return;
    const evidence::OperatorSet ops = peak.evidence().all_ops(each.lifetime);
    // Where scaled_dot_product_attention stores them, it is in use.
    const bool is_fused = ops.has(Operator::kFusedAttention | Operator::kLogSoftmax);
    if (!is_fused && ops.has(Operator::kSoftmax)) softmaxes.insert(place_of(each));
    const bool is_product =
        each.phase() != model::Phase::kBackward && ops.has(Operator::kBatchedProduct);
    if (!is_fused && is_product) products.insert(place_of(each));
    if (ops.has(Operator::kDropout)) dropouts.insert(place_of(each));
    const evidence::OperatorSet op = each.op();
    if (op.has(Operator::kDifference) && is_larger_than_operands) {
      found.pairs.insert(place_of(each));
    }
    const bool is_one_hot = op.has(Operator::kOneHot | Operator::kScatter);
    const std::uint32_t line = each.line().value;
    if (is_one_hot) lines.insert(line);
    if (is_one_hot || (op.has(Operator::kConversion) && lines.contains(line))) {
      found.one_hot.insert(line_of(each));
    }
  });
  const bool is_cpu = peak.device().trace.device.type == model::DeviceType::kCpu;
  for (const MadeAt& softmax : softmaxes) {
    // On the CPU, scaled_dot_product_attention with dropout stores the scores itself.
    if (is_cpu && dropouts.contains(softmax)) continue;
    for (const std::uint64_t size :
         {softmax.size_bytes, softmax.size_bytes / 2, softmax.size_bytes * 2}) {
      MadeAt product = softmax;
      product.size_bytes = size;
      if (!products.contains(product)) continue;
      found.scores.insert({softmax, product});
    }
  }
  return found;
}

// By how much the peak falls at most if the lines of the parts run in chunks: none of their large
// tensors is then whole. If what they read is as large, their backward still makes a whole gradient
// of it, and a checkpoint keeps it until then.
std::uint64_t saving_of_chunks(const Peak& peak, const Parts& parts, bool is_checkpointed) {
  std::set<std::uint32_t> lines;
  std::set<std::uint64_t> sizes;
  for (const Allocation& each : parts) {
    lines.insert(each.line().value);
    sizes.insert(each.size_bytes);
  }
  std::vector<std::uint32_t> forward, backward;
  std::vector<Allocation> others;  // that the lines may read
  std::set<std::uint32_t> read;
  peak.for_each([&](const Allocation& each) {
    const bool is_backward = each.phase() == model::Phase::kBackward;
    const bool is_on_lines = each.has_line() && lines.contains(each.line().value);
    const bool is_activation = !is_backward && each.is(model::kActivation);
    if (!is_on_lines || !sizes.contains(each.size_bytes)) {
      if (is_activation && each.size_bytes >= *sizes.begin()) others.push_back(each);
      return;
    }
    (is_backward ? backward : forward).push_back(each.lifetime);
    if (!is_activation || !peak.meets_backward(each)) return;
    const auto input = std::ranges::find_if(others.rbegin(), others.rend(), [&](const auto& other) {
      return other.died > each.born && other.size_bytes >= each.size_bytes &&
             other.size_bytes / 2 <= each.size_bytes;
    });
    if (input != others.rend()) read.insert(input->lifetime);
  });
  if (read.empty()) {
    forward.insert(forward.end(), backward.begin(), backward.end());
    return peak.replay().never_made(forward);
  }
  if (!is_checkpointed) read.clear();
  return peak.replay().in_chunks(forward, backward, std::vector(read.begin(), read.end()));
}

// For an operator whose result has N × N elements while two tensors of N elements are live:
// [N] and [N, 1] broadcast to [N, N], often by mistake.
void advise_broadcast(const Peak& peak, const Allocation& made, const std::string& line,
                      report::Finding& finding) {
  constexpr std::uint64_t kFewestElements = 256;
  if (!made.op().has(Operator::kElementwise)) return;
  for (const std::uint64_t item : {4u, 2u, 8u}) {
    const auto count = static_cast<std::uint64_t>(
        std::llround(std::sqrt(static_cast<double>(made.size_bytes) / static_cast<double>(item))));
    if (count < kFewestElements || count * count * item != made.size_bytes) continue;
    std::size_t operands = 0;
    peak.for_each([&](const Allocation& each) {
      const bool is_live = each.born < made.born && each.died > made.born;
      if (is_live && each.size_bytes == count * item) ++operands;
    });
    if (operands < 2) continue;
    const std::string number = base::format_count(count);
    const std::string size = std::to_string(count);  // in shapes, a comma separates dimensions
    finding.evidence.push_back(std::string(peak.trace().strings[made.site().op]) + " makes " +
                               number + " × " + number + " elements there, while two tensors of " +
                               number + " elements are live.");
    finding.steps.insert(
        finding.steps.begin(),
        {"If the result should have " + number + " elements, correct the shapes at " + line +
             ": [" + size + "] and [" + size + ", 1] broadcast to [" + size + ", " + size +
             "] (squeeze or view one of them).",
         worthwhile(peak, peak.saving_without([&](const Allocation& each) {
           return each.size_bytes == made.size_bytes && each.line() == made.line();
         }))});
    return;
  }
}

struct Transform {
  StackFlag flag;
  std::string_view begin;
  std::string_view end;  // after the line
};
constexpr std::array kTransforms = {
    Transform{StackFlag::kJacfwd,
              "Compute the Jacobian with torch.func.jacrev(…, chunk_size=…) in place of jacfwd or "
              "hessian, which run ",
              " for all of its columns at the same time."},
    Transform{StackFlag::kJacrev, "Pass chunk_size to torch.func.jacrev, which runs ",
              " for all rows at the same time: it then runs that number of rows at a time."},
    Transform{StackFlag::kVmap, "Pass chunk_size to torch.func.vmap, which runs ",
              " for all rows at the same time: it then runs that number of rows at a time."},
};

// For lines where neither chunks through checkpoints nor another operator may help; empty if they
// may.
Steps other_steps(const Allocation& largest, const std::string& line) {
  if (auto step = chunk_size_step(largest)) return {*std::move(step)};
  if (largest.op().has(Operator::kSparseBackward)) {
    return {{"If the sparse matrix needs no gradient, create it with requires_grad=False: the "
             "backward of the product at " +
             line + " makes a dense gradient of it."},
            {"Compute the product at " + line +
             " from the entries of the matrix (index_select, multiply, index_add)."}};
  }
  return {};
}

Steps chunk_steps(const Peak& peak, const Parts& parts, const std::string& line) {
  const Allocation& largest = largest_of(parts);
  if (!peak.is_inferred() && !largest.is_of_training()) {
    return {
        {"Make the tensor at " + line + " smaller: compute it in chunks, or use a smaller dtype."},
        {"Create it only when it is needed, and delete it (del) afterwards."}};
  }
  // Temporaries of backward belong to what forward keeps for it.
  const bool is_kept = std::ranges::any_of(parts, [&](const Allocation& each) {
    return each.size_bytes == largest.size_bytes &&
           (!each.is(model::kTemporaryCategory) || each.phase() == model::Phase::kBackward);
  });
  const bool is_checkpointed = is_kept && peak.is_in_training();
  const std::uint64_t saving =
      peak.is_inferred() ? 0 : worthwhile(peak, saving_of_chunks(peak, parts, is_checkpointed));
  return {step_up_to("Avoid the full-size tensor at " + line + ": compute it in chunks" +
                         (is_checkpointed ? std::string(kEachThroughCheckpoint) : "") +
                         ", or make it smaller.",
                     saving)};
}

}  // namespace

std::uint64_t worthwhile(const Peak& peak, std::uint64_t saving_bytes) {
  constexpr double kWorthIt = 0.02;
  return is_at_least(saving_bytes, kWorthIt, peak.bytes()) ? saving_bytes : 0;
}

void order_by_saving(Steps& steps) {
  std::ranges::stable_sort(steps, std::ranges::greater{}, &report::FindingStep::saving_bytes);
}

Steps substitutes(const Peak& peak) {
  const Substituted found = substituted(peak);
  Steps steps;
  const auto add = [&](const Places& places, std::optional<evidence::Remedy> remedy,
                       std::string_view text) {
    const auto is_there = [&](const Allocation& each) {
      return each.has_line() && (places.contains(place_of(each)) || places.contains(line_of(each)));
    };
    const Parts parts = peak.live_if(is_there);
    if (parts.empty()) return;
    const std::uint64_t saving = worthwhile(peak, peak.saving_without(is_there));
    if (saving == 0) return;
    const std::string_view call = remedy ? advice_of_package(parts, *remedy) : std::string_view();
    const std::string what = " the full-size tensors of " + place_of_most(peak, parts);
    steps.push_back(step_up_to(call.empty() ? "Avoid" + what + ": " + std::string(text)
                                            : std::string(call) + " to avoid" + what + ".",
                               saving));
  };
  add(found.scores, evidence::Remedy::kAttention,
      "use torch.nn.functional.scaled_dot_product_attention if this is attention.");
  add(found.pairs, {}, "use torch.cdist if these are the differences of all pairs.");
  add(found.one_hot, {}, "use an index (torch.gather) in place of a one-hot tensor.");
  return steps;
}

void advise_line(const Peak& peak, const Parts& parts, report::Finding& finding) {
  const Allocation& largest = largest_of(parts);
  const std::string line = largest.label();
  finding.steps = other_steps(largest, line);
  if (finding.steps.empty()) {
    finding.steps = substitutes(peak);
    std::ranges::move(chunk_steps(peak, parts, line), std::back_inserter(finding.steps));
    order_by_saving(finding.steps);
  }
  advise_appended(peak, parts, finding);
  advise_broadcast(peak, largest, line, finding);
}

std::optional<report::FindingStep> chunk_size_step(const Allocation& allocation) {
  for (const auto& [flag, begin, end] : kTransforms) {
    if (!allocation.has(flag)) continue;
    return report::FindingStep{std::string(begin) + allocation.label() + std::string(end)};
  }
  return std::nullopt;
}

}  // namespace plimsoll::findings

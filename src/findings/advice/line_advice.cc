#include "findings/advice/line_advice.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "findings/text.h"
#include "model/categories.h"

namespace plimsoll::findings {
namespace {

using evidence::Operator;

// Whether it is a matrix of attention scores. Where scaled_dot_product_attention itself stores
// them, the advice to call it would be wrong.
bool is_of_attention(const Peak& peak, const PeakAllocation& allocation) {
  const evidence::OperatorSet ops = peak.evidence().all_ops(allocation.lifetime);
  return ops.has(Operator::kSoftmax | Operator::kBatchedProduct) &&
         !ops.has(Operator::kLogSoftmax | Operator::kFusedAttention);
}

// Whether it is the differences of all pairs: a subtraction whose result is larger than both of its
// operands, so no tensor of its size is live.
bool is_of_pairs(const Peak& peak, const PeakAllocation& allocation) {
  return peak.op(allocation).has(Operator::kDifference) &&
         live_of_size(peak, allocation.born, allocation.size_bytes) == 0;
}

bool is_one_hot(const Peak& peak, const PeakAllocation& allocation) {
  return peak.op(allocation).has(Operator::kOneHot | Operator::kScatter);
}

// An allocation of the same layer that is live when `allocation` is made and fits.
std::optional<PeakAllocation> live_source(const Peak& peak, const PeakAllocation& allocation,
                                          const std::function<bool(const PeakAllocation&)>& fits) {
  std::vector<PeakAllocation> live;
  peak.for_each([&](const PeakAllocation& each) {
    if (each.born == model::kNone || each.born >= allocation.born) return;
    if (each.died <= allocation.born || each.size_bytes < allocation.size_bytes) return;
    if (peak.site(each).layer == peak.site(allocation).layer) live.push_back(each);
  });
  const auto found = std::ranges::find_if(live, fits);
  return found == live.end() ? std::nullopt : std::optional(*found);
}

// The scores of an attention that the allocation is, or that a dropout made it from.
std::optional<PeakAllocation> scores_of(const Peak& peak, const PeakAllocation& allocation) {
  if (is_of_attention(peak, allocation)) return allocation;
  const evidence::OperatorSet ops = peak.evidence().all_ops(allocation.lifetime);
  if (!ops.has(Operator::kDropout)) return std::nullopt;
  return live_source(peak, allocation, [&](const PeakAllocation& each) {
    const bool is_of_size =
        each.size_bytes == allocation.size_bytes || each.size_bytes == allocation.size_bytes * 2;
    const bool is_softmax = peak.op(each).has(Operator::kSoftmax);
    return is_of_size && is_softmax && is_of_attention(peak, each);
  });
}

// The differences of all pairs that the allocation is, or whose norm it computes.
std::optional<PeakAllocation> pairs_of(const Peak& peak, const PeakAllocation& allocation) {
  if (is_of_pairs(peak, allocation)) return allocation;
  const evidence::OperatorSet forward =
      peak.evidence().operators().of(peak.site(allocation).forward_op);
  if (!(peak.op(allocation) | forward).has(Operator::kNorm)) return std::nullopt;
  return live_source(peak, allocation, [&](const PeakAllocation& each) {
    return each.size_bytes == allocation.size_bytes && is_of_pairs(peak, each);
  });
}

// The one-hot tensor that the allocation is, or that its line copies to another dtype.
std::optional<PeakAllocation> one_hot_of(const Peak& peak, const PeakAllocation& allocation) {
  if (is_one_hot(peak, allocation)) return allocation;
  if (!peak.op(allocation).has(Operator::kConversion)) return std::nullopt;
  return live_source(peak, allocation, [&](const PeakAllocation& each) {
    return peak.line(each) == peak.line(allocation) && is_one_hot(peak, each);
  });
}

// Whether it is the dense gradient that the backward of a sparse product computes for its matrix.
bool is_of_sparse_backward(const Peak& peak, const PeakAllocation& allocation) {
  return peak.op(allocation).has(Operator::kSparseBackward);
}

// What never stores the largest tensors.
struct Substitute {
  std::string text;                     // empty if nothing is known to fit
  std::vector<PeakAllocation> sources;  // what it never stores either
};

Substitute substitute_for(const Peak& peak, const std::vector<std::uint32_t>& largest) {
  Substitute substitute;
  const auto is_any = [&](const auto& source) {
    for (const std::uint32_t part : largest) {
      if (auto found = source(peak, peak.live()[part])) substitute.sources.push_back(*found);
    }
    return !substitute.sources.empty();
  };
  if (is_any(scores_of)) {
    const bool has_dropout = std::ranges::any_of(
        largest, [&](std::uint32_t part) { return !is_of_attention(peak, peak.live()[part]); });
    substitute.text = "use torch.nn.functional.scaled_dot_product_attention" +
                      std::string(has_dropout ? " (with dropout_p)" : "") + " if this is attention";
  } else if (is_any(pairs_of)) {
    substitute.text = "use torch.cdist if these are the differences of all pairs";
  } else if (is_any(one_hot_of)) {
    substitute.text = "use an index in place of a one-hot tensor";
  }
  return substitute;
}

// The function that contains the line of an allocation.
std::pair<std::uint32_t, std::uint32_t> code_of(const Peak& peak,
                                                const PeakAllocation& allocation) {
  const model::StackTable& stacks = peak.trace().stacks;
  const model::Frame& frame = stacks.frame(peak.facts().lines.frame(allocation.stack));
  return {frame.file.value, frame.function.value};
}

// By how much the peak falls at most if no tensor of the parts' sizes is made on their lines. A
// substitute for a whole function also makes its other tensors of these sizes unnecessary.
std::uint64_t saving_of_lines(const Peak& peak, const std::vector<std::uint32_t>& parts,
                              const Substitute& substitute) {
  std::set<std::uint32_t> lines;
  std::set<std::uint64_t> sizes;
  std::set<std::pair<std::uint32_t, std::uint32_t>> functions;
  for (const std::uint32_t part : parts) {
    lines.insert(peak.line(peak.live()[part]).value);
    sizes.insert(peak.live()[part].size_bytes);
  }
  for (const PeakAllocation& source : substitute.sources) {
    if (!peak.has_line(source)) continue;
    functions.insert(code_of(peak, source));
    sizes.insert(source.size_bytes);
  }
  return peak.saving([&](const PeakAllocation& allocation) {
    const bool is_dropped = sizes.contains(allocation.size_bytes) && peak.has_line(allocation) &&
                            (lines.contains(peak.line(allocation).value) ||
                             functions.contains(code_of(peak, allocation)));
    return is_dropped ? allocation.born : allocation.died;
  });
}

// By how much the peak falls at most if the lines of the parts run in chunks: none of their large
// tensors is then whole. If what they read is as large, their backward still makes a whole gradient
// of it, and a checkpoint keeps it until then.
std::uint64_t saving_of_chunks(const Peak& peak, const std::vector<std::uint32_t>& parts,
                               bool is_checkpointed) {
  std::set<std::uint32_t> lines;
  std::set<std::uint64_t> sizes;
  for (const std::uint32_t part : parts) {
    lines.insert(peak.line(peak.live()[part]).value);
    sizes.insert(peak.live()[part].size_bytes);
  }
  std::vector<std::uint32_t> forward, backward;
  std::vector<PeakAllocation> others;  // that the lines may read
  std::set<std::uint32_t> read;
  peak.for_each([&](const PeakAllocation& each) {
    const bool is_backward = peak.phase(each) == model::Phase::kBackward;
    const bool is_on_lines = peak.has_line(each) && lines.contains(peak.line(each).value);
    const bool is_activation = !is_backward && peak.category(each) == model::kActivation;
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
  if (!is_checkpointed) return peak.replay().in_chunks(forward, backward, {});
  return peak.replay().in_chunks(forward, backward, std::vector(read.begin(), read.end()));
}

// The parts as large as the largest one.
std::vector<std::uint32_t> largest_of(const Peak& peak, const std::vector<std::uint32_t>& parts) {
  std::uint64_t most = 0;
  for (const std::uint32_t part : parts) most = std::max(most, peak.live()[part].size_bytes);
  std::vector<std::uint32_t> largest;
  std::ranges::copy_if(parts, std::back_inserter(largest),
                       [&](std::uint32_t part) { return peak.live()[part].size_bytes == most; });
  return largest;
}

}  // namespace

bool is_of_training(std::string_view category) {
  return category == model::kActivation || category == model::kActivationGradient ||
         category == model::kTemporaryCategory;
}

std::size_t live_of_size(const Peak& peak, std::uint32_t event, std::uint64_t size_bytes) {
  std::size_t count = 0;
  peak.for_each([&](const PeakAllocation& each) {
    const bool is_born = each.born == model::kNone || each.born < event;
    if (is_born && each.died > event && each.size_bytes == size_bytes) ++count;
  });
  return count;
}

Steps steps_for_line(const Peak& peak, const std::vector<std::uint32_t>& parts,
                     const std::string& line) {
  const std::vector<std::uint32_t> all_largest = largest_of(peak, parts);
  const PeakAllocation& largest = peak.live()[all_largest.front()];
  if (peak.device().trace.device.type == model::DeviceType::kPinnedHost) {
    return {{"Pin less at a time at " + line +
             ": reuse one pinned buffer for all transfers, and leave memory that is not "
             "transferred unpinned."}};
  }
  if (peak.trace().has_native_lines) {
    return {
        {"Allocate less at a time at " + line + ": in chunks, or into one buffer that is reused."}};
  }
  if (std::string advice = chunk_size_advice(peak, largest, line); !advice.empty()) {
    return {{std::move(advice)}};
  }
  if (peak.op(largest).has(Operator::kConvolution)) {
    const bool is_scratch = peak.category(largest) == model::kTemporaryCategory;
    const bool is_on_host = peak.device().trace.device.type == model::DeviceType::kCpu;
    Steps steps = {
        {"Run the convolution at " + line + " on fewer images or on tiles at a time" +
         (is_scratch && !is_on_host ? ": it needs this memory only while it runs." : ".")},
        {"Run it in bfloat16."}};
    if (is_scratch && !is_on_host) {
      steps.push_back(
          {"Set torch.backends.cudnn.benchmark = False if it is True: it may have chosen an "
           "algorithm that needs more."});
    }
    return steps;
  }
  const Substitute substitute = substitute_for(peak, all_largest);
  if (!peak.is_inferred() && !is_of_training(peak.category(largest))) {
    const std::string smaller = "Make the tensor at " + line + " smaller: ";
    Steps steps = {{smaller + "compute it in chunks, or use a smaller dtype."},
                   {"Create it only when it is needed, and delete it (del) afterwards."}};
    if (!substitute.text.empty()) {
      steps.front().text = "Compute it in chunks, or use a smaller dtype.";
      steps.insert(steps.begin(), {smaller + substitute.text + "."});
    }
    return steps;
  }
  if (is_of_sparse_backward(peak, largest)) {
    return {{"If the sparse matrix needs no gradient, create it with requires_grad=False: the "
             "backward of the product at " +
             line + " makes a dense gradient of it."},
            {"Compute the product at " + line +
             " from the entries of the matrix (index_select, multiply, index_add)."}};
  }
  // Temporaries of backward belong to what forward keeps for it.
  const bool is_kept = std::ranges::any_of(all_largest, [&](std::uint32_t part) {
    return peak.category(peak.live()[part]) != model::kTemporaryCategory ||
           peak.phase(peak.live()[part]) == model::Phase::kBackward;
  });
  const bool is_checkpointed = is_kept && peak.is_in_training();
  const std::uint64_t of_chunks =
      peak.is_inferred() ? 0 : worthwhile(peak, saving_of_chunks(peak, parts, is_checkpointed));
  const std::string avoid = "Avoid the full-size tensor at " + line + ": ";
  const std::string in_chunks = " it in chunks" +
                                (is_checkpointed ? std::string(kEachThroughCheckpoint) : "") +
                                ", or make it smaller.";
  if (substitute.text.empty()) return {step_up_to(avoid + "compute" + in_chunks, of_chunks)};
  const std::uint64_t saving =
      peak.is_inferred() ? 0 : worthwhile(peak, saving_of_lines(peak, parts, substitute));
  return {step_up_to(avoid + substitute.text + ".", saving),
          step_up_to("Compute" + in_chunks, of_chunks)};
}

std::uint64_t worthwhile(const Peak& peak, std::uint64_t saving_bytes) {
  constexpr double kWorthIt = 0.02;
  return is_at_least(saving_bytes, kWorthIt, peak.bytes()) ? saving_bytes : 0;
}

void advise_one_hot(const Peak& peak, Explanation& explanation) {
  constexpr double kLeastOneHot = 0.1;
  std::set<std::uint32_t> one_hot;  // lines
  peak.for_each([&](const PeakAllocation& allocation) {
    const bool is_made = allocation.born != model::kNone && allocation.born <= peak.event();
    if (!is_made || !peak.has_line(allocation)) return;
    if (!peak.op(allocation).has(Operator::kOneHot)) return;
    one_hot.insert(peak.line(allocation).value);
  });
  for (const std::uint32_t part : explanation.parts) {
    one_hot.erase(peak.line(peak.live()[part]).value);
  }
  std::map<std::string, std::uint64_t> lines;
  for (const PeakAllocation& each : peak.live()) {
    const bool is_of_line = peak.has_line(each) && one_hot.contains(peak.line(each).value);
    if (is_of_line) lines[peak.line_label(each)] += each.size_bytes;
  }
  for (const auto& [line, bytes] : lines) {
    if (!is_at_least(bytes, kLeastOneHot, peak.bytes())) continue;
    explanation.finding.evidence.push_back("One-hot tensors of " + line + " are another " +
                                           bytes_text(bytes) + " of the peak.");
    const std::uint64_t saving = peak.saving([&](const PeakAllocation& each) {
      const bool is_of_line = peak.has_line(each) && one_hot.contains(peak.line(each).value) &&
                              peak.line_label(each) == line;
      return is_of_line ? each.born : each.died;
    });
    explanation.finding.steps.push_back(step_up_to(
        "Use an index (torch.gather) in place of the one-hot tensors of " + line + ".", saving));
  }
}

std::uint64_t saving_of_appended(const Peak& peak, const PeakAllocation& largest) {
  std::map<std::uint32_t, std::uint32_t> extended;  // by lifetime: when the longer one is made
  std::vector<PeakAllocation> latest;               // not yet made longer
  peak.for_each([&](const PeakAllocation& allocation) {
    if (peak.site(allocation).op != peak.site(largest).op) return;
    if (peak.line(allocation) != peak.line(largest)) return;
    std::erase_if(latest, [&](const auto& each) { return each.died < allocation.born; });
    auto before = latest.end();
    for (auto each = latest.begin(); each != latest.end(); ++each) {
      if (each->size_bytes >= allocation.size_bytes) continue;
      if (before == latest.end() || each->size_bytes > before->size_bytes) before = each;
    }
    if (before == latest.end()) {
      latest.push_back(allocation);
      return;
    }
    extended[before->lifetime] = allocation.born;
    *before = allocation;
  });
  return peak.saving([&](const PeakAllocation& allocation) {
    const auto found = extended.find(allocation.lifetime);
    return found == extended.end() ? allocation.died : std::min(allocation.died, found->second);
  });
}

std::string chunk_size_advice(const Peak& peak, const PeakAllocation& allocation,
                              const std::string& what) {
  using evidence::StackFlag;
  const auto is_in = [&](StackFlag flag) { return peak.stacks().has(allocation.stack, flag); };
  if (is_in(StackFlag::kJacfwd)) {
    return "Compute the Jacobian with torch.func.jacrev(…, chunk_size=…) in place of jacfwd or "
           "hessian, which run " +
           what + " for all of its columns at the same time.";
  }
  const std::string_view transform = is_in(StackFlag::kJacrev) ? "jacrev"
                                     : is_in(StackFlag::kVmap) ? "vmap"
                                                               : "";
  if (transform.empty()) return {};
  return "Pass chunk_size to torch.func." + std::string(transform) + ", which runs " + what +
         " for all rows at the same time: it then runs that number of rows at a time.";
}

}  // namespace plimsoll::findings

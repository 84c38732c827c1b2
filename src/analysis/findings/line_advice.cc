#include "analysis/findings/line_advice.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "base/path_text.h"
#include "model/categories.h"

namespace plimsoll::analysis::findings {
namespace {

bool is_any_in(std::span<const std::string_view> words, std::string_view text) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

// The operators of an allocation: the outermost, the innermost and, in backward, the one of the
// forward.
std::array<std::string_view, 3> operators_of(const Peak& peak, const PeakAllocation& allocation) {
  if (allocation.born == model::kNone) return {};
  const auto& strings = peak.trace().strings;
  const model::Site& site = peak.site(allocation);
  return {strings[site.op], strings[site.inner_op], strings[site.forward_op]};
}

bool is_of_convolution(const Peak& peak, const PeakAllocation& allocation) {
  const std::string_view op = operators_of(peak, allocation).front();
  return op.starts_with("aten::conv") || op.starts_with("Convolution");
}

// Whether it is a matrix of attention scores. Where scaled_dot_product_attention itself stores
// them, the advice to call it would be wrong.
bool is_of_attention(const Peak& peak, const PeakAllocation& allocation) {
  constexpr std::array<std::string_view, 5> kScores = {"::softmax", "_softmax", "bmm", "Softmax",
                                                       "Bmm"};
  constexpr std::array<std::string_view, 3> kOthers = {"log_softmax", "LogSoftmax",
                                                       "scaled_dot_product"};
  const auto operators = operators_of(peak, allocation);
  const auto is_other = [&](std::string_view op) { return is_any_in(kOthers, op); };
  const auto is_score = [&](std::string_view op) { return is_any_in(kScores, op); };
  return std::ranges::none_of(operators, is_other) && std::ranges::any_of(operators, is_score);
}

// Whether it is the differences of all pairs: a subtraction whose result is larger than both of its
// operands, so no tensor of its size is live.
bool is_of_pairs(const Peak& peak, const PeakAllocation& allocation) {
  const std::string_view op = operators_of(peak, allocation).front();
  const bool is_difference = op == "aten::sub" || op == "aten::rsub";
  return is_difference && live_of_size(peak, allocation.born, allocation.size_bytes) == 0;
}

bool is_one_hot(const Peak& peak, const PeakAllocation& allocation) {
  const std::string_view op = operators_of(peak, allocation).front();
  return op == "aten::one_hot" || op.starts_with("aten::scatter");
}

// Whether it is the dense gradient that the backward of a sparse product computes for its matrix.
bool is_of_sparse_backward(const Peak& peak, const PeakAllocation& allocation) {
  const std::string_view op = operators_of(peak, allocation).front();
  return op.starts_with("Sparse") && op.find("Backward") != std::string_view::npos;
}

// What never stores the largest tensors, with a separator; empty if nothing is known to fit.
std::string substitute_for(const Peak& peak, const std::vector<std::uint32_t>& largest) {
  const auto is_any = [&](bool (*fits)(const Peak&, const PeakAllocation&)) {
    return std::ranges::any_of(largest,
                               [&](std::uint32_t part) { return fits(peak, peak.live()[part]); });
  };
  if (is_any(is_of_attention)) {
    return "use torch.nn.functional.scaled_dot_product_attention if this is attention, ";
  }
  if (is_any(is_of_pairs)) {
    return "use torch.cdist if these are the differences of all pairs, ";
  }
  if (is_any(is_one_hot)) return "use an index in place of a one-hot tensor, ";
  return {};
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

std::string advice_for_line(const Peak& peak, const std::vector<std::uint32_t>& parts,
                            const std::string& line) {
  const std::vector<std::uint32_t> all_largest = largest_of(peak, parts);
  const PeakAllocation& largest = peak.live()[all_largest.front()];
  if (peak.device().trace.device.type == model::DeviceType::kPinnedHost) {
    return "Pin less at a time at " + line +
           ": reuse one pinned buffer for all transfers, and leave memory that is not transferred "
           "unpinned.";
  }
  if (peak.trace().has_native_lines) {
    return "Allocate less at a time at " + line + ": in chunks, or into one buffer that is reused.";
  }
  if (std::string advice = chunk_size_advice(peak, largest, line); !advice.empty()) return advice;
  if (is_of_convolution(peak, largest)) {
    const bool is_scratch = peak.category(largest) == model::kTemporaryCategory;
    const bool is_on_host = peak.device().trace.device.type == model::DeviceType::kCpu;
    return "Run the convolution at " + line +
           " on fewer images or on tiles at a time, or in bfloat16." +
           (is_scratch && !is_on_host
                ? " It needs this memory only while it runs. If torch.backends.cudnn.benchmark is "
                  "True, it may have chosen an algorithm that needs more."
                : "");
  }
  const std::string substitute = substitute_for(peak, all_largest);
  if (!peak.is_inferred() && !is_of_training(peak.category(largest))) {
    return "Make the tensor at " + line + " smaller: " + substitute +
           "compute it in chunks, or use a smaller dtype. Or create it only when it is needed, and "
           "delete it (del) afterwards.";
  }
  if (is_of_sparse_backward(peak, largest)) {
    return "The backward of the product at " + line +
           " makes a dense gradient of its sparse matrix. If the matrix needs no gradient, create "
           "it with requires_grad=False. Otherwise compute the product from the entries of the "
           "matrix (index_select, multiply, index_add).";
  }
  const bool is_kept = peak.category(largest) != model::kTemporaryCategory;
  return "Avoid the full-size tensor at " + line + ": " + substitute + "compute it in chunks" +
         (is_kept && peak.is_in_training() ? std::string(kEachThroughCheckpoint) : "") +
         ", or make it smaller.";
}

std::string chunk_size_advice(const Peak& peak, const PeakAllocation& allocation,
                              const std::string& what) {
  const model::Trace& trace = peak.trace();
  std::string_view transform;
  for (const model::FrameId id : trace.stacks.frames(allocation.stack)) {
    const model::Frame& frame = trace.stacks.frame(id);
    const std::string_view file = trace.strings[frame.file];
    const std::string_view function = trace.strings[frame.function];
    const bool is_of_jacobian = base::ends_with_path(file, "torch/_functorch/eager_transforms.py");
    // The only one without a chunk_size; torch.func.hessian calls it.
    if (is_of_jacobian && function.starts_with("jacfwd.")) {
      return "Compute the Jacobian with torch.func.jacrev(…, chunk_size=…) in place of jacfwd or "
             "hessian, which run " +
             what + " for all of its columns at the same time.";
    }
    if (is_of_jacobian && function.starts_with("jacrev.")) transform = "jacrev";
    const bool is_of_vmap = base::ends_with_path(file, "torch/_functorch/apis.py");
    if (is_of_vmap && function.starts_with("vmap.") && transform.empty()) transform = "vmap";
  }
  if (transform.empty()) return {};
  return "Pass chunk_size to torch.func." + std::string(transform) + ", which runs " + what +
         " for all rows at the same time: it then runs that number of rows at a time.";
}

}  // namespace plimsoll::analysis::findings

#include "findings/advice/logits.h"

#include <algorithm>
#include <ranges>
#include <string_view>
#include <utility>
#include <vector>

#include "findings/advice/line_advice.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// A smaller loss is not worth its own advice.
constexpr double kLeastLoss = 0.05;
constexpr double kShareOfLogits = 0.5;

using evidence::Operator;

bool is_loss(evidence::OperatorSet op) {
  return op.has(Operator::kCrossEntropy | Operator::kLogSoftmax);
}

bool is_linear(const Peak& peak, const PeakAllocation& allocation) {
  const evidence::OperatorSet inner =
      peak.evidence().operators().of(peak.site(allocation).inner_op);
  return peak.op(allocation).has(Operator::kLinear) && !inner.has(Operator::kBatchedProduct);
}

// Whether a tensor of `from` bytes may be copied to one of `to` bytes: in another dtype, or without
// a few of the positions, as a language model drops the last one.
bool may_be_copied(std::uint64_t from, std::uint64_t to) {
  const auto fits = [&](std::uint64_t bytes) { return bytes >= to && bytes - to <= to / 8; };
  return fits(from) || fits(from * 2) || fits(from / 2);
}

// What computes the loss: allocations before the peak, outside backward and optimizer.
struct OfForward {
  std::vector<PeakAllocation> sources;  // linear operators, copies and losses
  std::vector<std::uint32_t> nll;       // births of what nll_loss makes, ascending
};

OfForward what_computes_losses(const Peak& peak) {
  OfForward forward;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (allocation.born > peak.event() || !peak.has_line(allocation)) return;
    const model::Site& site = peak.site(allocation);
    if (site.phase == model::Phase::kBackward || site.phase == model::Phase::kOptimizer) return;
    const evidence::OperatorSet op = peak.op(allocation);
    if (op.has(Operator::kNegativeLogLikelihood)) forward.nll.push_back(allocation.born);
    if (is_loss(op) || op.has(Operator::kToLoss) || is_linear(peak, allocation)) {
      forward.sources.push_back(allocation);
    }
  });
  return forward;
}

// The loss, its source, the source of that and so on, up to a linear operator; empty if none leads
// to one.
std::vector<PeakAllocation> chain_of(const Peak& peak, const OfForward& forward,
                                     const PeakAllocation& loss) {
  std::vector<PeakAllocation> chain = {loss};
  for (const PeakAllocation& each : forward.sources | std::views::reverse) {
    const PeakAllocation& made = chain.back();
    const bool is_read = each.born < made.born && each.died > made.born;
    if (!is_read || !may_be_copied(each.size_bytes, made.size_bytes)) continue;
    chain.push_back(each);
    if (is_linear(peak, each)) return chain;
  }
  return {};
}

}  // namespace

std::optional<Logits> logits_of(const Peak& peak) {
  if (peak.is_inferred() || peak.trace().has_native_lines) return std::nullopt;
  const auto& strings = peak.trace().strings;
  const OfForward forward = what_computes_losses(peak);
  const PeakAllocation* loss = nullptr;
  for (const PeakAllocation& each : forward.sources) {
    const evidence::OperatorSet op = peak.op(each);
    if (!is_loss(op) || (loss != nullptr && each.size_bytes < loss->size_bytes)) continue;
    const auto next_nll = std::ranges::upper_bound(forward.nll, each.born);
    const bool is_cross_entropy =
        op.has(Operator::kCrossEntropy) || (next_nll != forward.nll.end() && *next_nll < each.died);
    if (is_cross_entropy) loss = &each;
  }
  if (loss == nullptr || !is_at_least(loss->size_bytes, kLeastLoss, peak.bytes())) {
    return std::nullopt;
  }
  const std::vector<PeakAllocation> chain = chain_of(peak, forward, *loss);
  if (chain.empty()) return std::nullopt;
  Logits logits;
  logits.maker = strings[peak.site(chain.back()).layer];
  if (logits.maker.empty()) logits.maker = peak.line_label(chain.back());
  logits.loss = peak.line_label(*loss);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    logits.lines.insert(peak.line(chain[i]).value);
    logits.sizes.insert(chain[i].size_bytes);
    const bool is_wider =
        i + 1 < chain.size() && chain[i].size_bytes > chain[i + 1].size_bytes / 2 * 3;
    if (is_wider && !is_loss(peak.op(chain[i]))) {
      logits.upcast = peak.line_label(chain[i]);
    }
  }
  return logits;
}

bool advise_logits(const Peak& peak, const std::optional<Logits>& logits,
                   Explanation& explanation) {
  if (!logits) return false;
  const auto is_of_logits = [&](const PeakAllocation& allocation) {
    return logits->sizes.contains(allocation.size_bytes) && peak.has_line(allocation) &&
           logits->lines.contains(peak.line(allocation).value);
  };
  std::uint64_t bytes = 0;
  for (const std::uint32_t part : explanation.parts) {
    if (is_of_logits(peak.live()[part])) bytes += peak.live()[part].size_bytes;
  }
  if (!is_at_least(bytes, kShareOfLogits, explanation.bytes)) return false;
  report::Finding& finding = explanation.finding;
  finding.evidence.push_back(bytes_text(bytes) + " of it are the logits that " + logits->maker +
                             " makes, their copies and gradients, and the loss at " + logits->loss +
                             ".");
  const std::uint64_t saving = worthwhile(peak, peak.saving([&](const PeakAllocation& allocation) {
    return is_of_logits(allocation) ? allocation.born : allocation.died;
  }));
  const std::string both = logits->maker + " and the loss at " + logits->loss;
  std::string chunks = "Compute " + both + " in chunks of the positions" +
                       (peak.may_train() ? std::string(kEachThroughCheckpoint) : "") +
                       ": the logits of all positions are then never stored together.";
  if (!logits->upcast.empty()) {
    finding.evidence.push_back(logits->upcast + " copies all logits to a wider dtype.");
    chunks += " Upcast each chunk, not all logits as " + logits->upcast + " does.";
  }
  finding.steps = {step_up_to(std::move(chunks), saving),
                   step_up_to("Compute " + both + " with a fused linear cross entropy.", saving)};
  return true;
}

}  // namespace plimsoll::findings

#include "findings/advice/advice.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <string>

#include "findings/advice/checkpoints.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

using evidence::Operator;

bool is_loss(evidence::OperatorSet op) {
  return op.has(Operator::kCrossEntropy | Operator::kLogSoftmax);
}

bool is_linear(const Allocation& each) {
  const evidence::OperatorSet inner = each.known->evidence.operators().of(each.site().inner_op);
  return each.op().has(Operator::kLinear) && !inner.has(Operator::kBatchedProduct);
}

// Whether a tensor of `from` bytes may be copied to one of `to` bytes: in another dtype, or without
// a few of the positions, as a language model drops the last one.
bool may_be_copied(std::uint64_t from, std::uint64_t to) {
  const auto fits = [&](std::uint64_t bytes) { return bytes >= to && bytes - to <= to / 8; };
  return fits(from) || fits(from * 2) || fits(from / 2);
}

// The largest cross entropy before the peak, its source, the source of that and so on, up to a
// linear operator; empty if none leads to one.
std::vector<Allocation> chain_of_loss(const Peak& peak) {
  std::vector<Allocation> sources;  // linear operators, copies and losses, by birth
  std::vector<std::uint32_t> nll;   // births of what nll_loss makes
  peak.for_each([&](const Allocation& each) {
    if (each.born > peak.event() || !each.has_line()) return;
    const model::Phase phase = each.phase();
    if (phase == model::Phase::kBackward || phase == model::Phase::kOptimizer) return;
    const evidence::OperatorSet op = each.op();
    if (op.has(Operator::kNegativeLogLikelihood)) nll.push_back(each.born);
    const bool is_source = is_loss(op) || op.has(Operator::kToLoss) || is_linear(each);
    if (is_source) sources.push_back(each);
  });
  std::vector<Allocation> chain(1);
  for (const Allocation& each : sources) {
    const evidence::OperatorSet op = each.op();
    if (!is_loss(op) || each.size_bytes < chain[0].size_bytes) continue;
    const auto next_nll = std::ranges::upper_bound(nll, each.born);
    const bool is_read = next_nll != nll.end() && *next_nll < each.died;
    if (is_read || op.has(Operator::kCrossEntropy)) chain[0] = each;
  }
  for (const Allocation& each : sources | std::views::reverse) {
    const Allocation& made = chain.back();
    const bool is_read = each.born < made.born && each.died > made.born;
    if (!is_read || !may_be_copied(each.size_bytes, made.size_bytes)) continue;
    chain.push_back(each);
    if (is_linear(each)) return chain;
  }
  return {};
}

}  // namespace

Steps steps_for_logits(const Peak& peak, const Parts& parts, report::Finding& finding) {
  if (peak.is_inferred() || peak.trace().has_native_lines) return {};
  const std::vector<Allocation> chain = chain_of_loss(peak);
  if (chain.empty()) return {};
  std::set<std::uint32_t> lines;
  std::set<std::uint64_t> sizes;
  for (const Allocation& each : chain) {
    lines.insert(each.line().value);
    sizes.insert(each.size_bytes);
  }
  const auto is_of_logits = [&](const Allocation& each) {
    return sizes.contains(each.size_bytes) && each.has_line() && lines.contains(each.line().value);
  };
  const std::uint64_t bytes = bytes_of(those_of(parts, is_of_logits));
  const std::uint64_t saving = worthwhile(peak, peak.saving_without(is_of_logits));
  if (bytes == 0 || saving == 0) return {};
  const std::string loss = place_of_most(peak, Parts{chain.front()});
  std::string maker(peak.trace().strings[chain.back().site().layer]);
  if (maker.empty()) maker = chain.back().label();
  finding.evidence.push_back(bytes_text(bytes) + " of it are the logits that " + maker +
                             " makes, their copies and gradients, and the loss at " + loss + ".");
  const std::string both = "Compute " + maker + " and the loss at " + loss;
  const std::string_view call = advice_of_package({chain.back()}, evidence::Remedy::kFusedLoss);
  Steps steps = {
      step_up_to(both + " in chunks of the positions" +
                     (peak.may_train() ? std::string(kEachThroughCheckpoint) : "") +
                     ": the logits of all positions are then never stored together.",
                 saving),
      step_up_to(call.empty() ? both + " with a fused linear cross entropy."
                              : std::string(call) +
                                    ": a fused linear cross entropy never stores the logits of "
                                    "all positions together.",
                 saving)};
  // The loss is in the package, which the program cannot change.
  if (!call.empty()) std::ranges::reverse(steps);
  return steps;
}

}  // namespace plimsoll::findings

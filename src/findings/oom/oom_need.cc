#include "findings/oom/oom_need.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/units.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

using report::OomChange;
using report::OomNeed;

// Sizes that differ by less than this factor count as equal, because blocks are rounded.
constexpr double kLeastGrowth = 1.05;
// Between linear and quadratic growth.
constexpr double kQuadraticPower = 1.5;

std::string times_text(double ratio) {
  constexpr double kMost = 1e15;  // a hostile file may have any size
  const auto tenths = static_cast<std::uint64_t>(std::llround(std::min(ratio, kMost) * 10));
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " times";
}

// Explains what the estimate is based on.
std::string basis_text(const report::OomDetails& oom) {
  const OomNeed& need = oom.need;
  if (need.basis == "optimizer_state") {
    std::string text = bytes_text(need.state_bytes.value_or(0)) +
                       " of it is optimizer state of parameters that have none yet";
    if (need.scratch_bytes) {
      text +=
          ", and " + bytes_text(*need.scratch_bytes) + " are temporaries, which fused=True avoids";
    }
    return text + ".";
  }
  std::string text = need.basis == "earlier_forward"
                         ? "The estimate covers only its forward, and follows an earlier step"
                         : "The estimate follows an earlier step of this recording";
  const double ratio = need.ratio.value_or(1.0);
  if (has_fitted_before(need)) {
    return text +
           " with tensors of the same size, which completed. Since then, more is kept or less "
           "is available.";
  }
  text += ": the tensors of this one are " + times_text(ratio) + " as large";
  if (!need.input_shape.empty() && !need.earlier_input_shape.empty() &&
      need.input_shape != need.earlier_input_shape) {
    text += " (input " + need.input_shape + " instead of " + need.earlier_input_shape + ")";
  }
  const double request =
      static_cast<double>(oom.requested_bytes) /
      static_cast<double>(std::max<std::uint64_t>(need.earlier_request_bytes.value_or(1), 1));
  if (ratio > 1.0 && std::log(request) >= kQuadraticPower * std::log(ratio)) {
    text += ", and this request is " + times_text(request) + " as large: it grows quadratically";
  }
  return text + ".";
}

const OomChange* find(const OomNeed& need, std::string_view change) {
  const auto found = std::ranges::find(need.changes, change, &OomChange::change);
  return found == need.changes.end() ? nullptr : &*found;
}

// Whether the free pieces together would have served the request, so that readers may suspect
// fragmentation.
bool was_enough_in_sum(const report::OomDetails& oom) {
  const std::uint64_t left = oom.is_limited ? 0 : oom.device_free_bytes.value_or(0);
  return bytes_in_pieces(oom) + left >= oom.requested_bytes;
}

// "Use a batch of at most 15 instead of 16"
std::string batch_text(const OomNeed& need, const OomChange& change) {
  if (change.batch_size) {
    return "Use a batch of at most " + base::format_count(*change.batch_size) + " instead of " +
           base::format_count(need.batch_size.value_or(0));
  }
  const auto percent = static_cast<std::uint64_t>(change.batch_share.value_or(0) * 100);
  return "Use at most " + std::to_string(percent) + "% of this batch";
}

std::string change_text(const OomNeed& need, const OomChange& change) {
  if (change.change == "smaller_batch") return batch_text(need, change);
  const std::string needed = ", which needs about " + bytes_text(change.needed_bytes.value_or(0));
  if (change.change == "checkpoint") {
    return "Run " + change.layers +
           " through torch.utils.checkpoint.checkpoint(…, use_reentrant=False)" + needed;
  }
  return "Keep the optimizer's state in 8 bits (AdamW8bit of bitsandbytes or torchao)" + needed;
}

// "contiguous memory (needs 96.0 GiB), optimizer state in 8 bits (needs 92.0 GiB)"
std::string not_enough_text(const report::OomDetails& oom) {
  std::string text;
  for (const OomChange& change : oom.need.changes) {
    if (change.is_enough || !change.needed_bytes) continue;
    std::string name = "optimizer state in 8 bits";
    if (change.change == "contiguous_memory") {
      if (!was_enough_in_sum(oom) || left_if_contiguous(oom)) continue;
      name = "contiguous memory (expandable_segments)";
    } else if (change.change == "checkpoint") {
      name = "checkpoints of " + change.layers;
    } else if (change.change == "smaller_batch") {
      name = "a batch of 1 instead of " + base::format_count(oom.need.batch_size.value_or(0));
    }
    text += (text.empty() ? "" : ", ") + name + " (needs " + bytes_text(*change.needed_bytes) + ")";
  }
  return text;
}

}  // namespace

bool is_known(const OomNeed& need) { return need.bytes && need.available_bytes; }

bool is_mostly_batch(const OomNeed& need) {
  return is_known(need) && is_at_least(need.scaling_bytes.value_or(0), 0.5, *need.bytes);
}

bool has_fitted_before(const OomNeed& need) {
  const double ratio = need.ratio.value_or(1.0);
  return need.basis == "earlier_step" && ratio < kLeastGrowth && ratio > 1 / kLeastGrowth;
}

bool has_limit(const report::OomDetails& oom) {
  return oom.limit_bytes && oom.device_total_bytes && *oom.limit_bytes < *oom.device_total_bytes;
}

std::uint64_t bytes_in_pieces(const report::OomDetails& oom) {
  return oom.stranded_bytes - std::min(oom.stranded_bytes, oom.private_idle_bytes);
}

std::string need_text(const report::OomDetails& oom) {
  const std::uint64_t needed = *oom.need.bytes, available = *oom.need.available_bytes;
  const std::string text = "about " + bytes_text(needed);
  const std::string all = bytes_text(available);
  if (needed <= available) {
    const std::uint64_t pieces = bytes_in_pieces(oom);
    return text + " of the " + all + " that are available" +
           (pieces > 0 ? ", of which " + bytes_text(pieces) + " were free in pieces" : "");
  }
  return text +
         (has_limit(oom) ? ", and the process may use " + all : ", and " + all + " are available");
}

std::vector<std::string> need_sentences(const report::OomDetails& oom) {
  const OomNeed& need = oom.need;
  if (need.basis.empty()) return {};
  if (!is_known(need)) return {"What the whole step needs is unknown: " + need.why_unknown + "."};
  std::vector<std::string> sentences{"The whole step needs " + need_text(oom) + ". " +
                                     basis_text(oom)};
  const std::string not_enough = not_enough_text(oom);
  if (!not_enough.empty()) sentences.push_back("Not enough on its own: " + not_enough + ".");
  return sentences;
}

std::vector<std::string> enough_texts(const report::OomDetails& oom) {
  std::vector<std::string> texts;
  for (const OomChange& change : oom.need.changes) {
    if (!change.is_enough || change.change == "contiguous_memory") continue;
    texts.push_back(change_text(oom.need, change) + ".");
  }
  return texts;
}

bool is_batch_enough(const report::OomNeed& need) {
  const OomChange* change = find(need, "smaller_batch");
  return change == nullptr || change->is_enough;
}

std::optional<std::uint64_t> left_if_contiguous(const report::OomDetails& oom) {
  const OomChange* contiguous = find(oom.need, "contiguous_memory");
  if (contiguous == nullptr || contiguous->is_enough || !is_known(oom.need)) return {};
  if (*oom.need.bytes > *oom.need.available_bytes || !was_enough_in_sum(oom)) return {};
  return *oom.need.available_bytes - *oom.need.bytes;
}

}  // namespace plimsoll::findings

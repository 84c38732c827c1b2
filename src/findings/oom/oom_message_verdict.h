// Why a request failed, as far as the numbers of its message allow a verdict.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "findings/allocator/allocator_conf.h"
#include "model/oom_message.h"
#include "report/finding.h"

namespace plimsoll::findings {

// Memory that may be the reason, as far as the message has the numbers to derive it.
struct MessageFigures {
  std::uint64_t missing_bytes = 0;             // the request, less what the driver had
  std::optional<std::uint64_t> cached_bytes;   // reserved and unused
  std::optional<std::uint64_t> outside_bytes;  // of this process, outside of the allocator
  std::optional<std::uint64_t> other_process_bytes;
  std::uint64_t unlisted_bytes = 0;  // part of the others that the message does not list
  std::optional<std::uint64_t>
      unshared_bytes;              // outside of the allocator, of this process or others
  bool is_least_unshared = false;  // of what PyTorch reserves, only the limit is known
};

MessageFigures figures_of(const model::OomMessage& message);

struct MessageVerdict {
  std::string title;
  std::vector<report::FindingStep> steps = {};
};

// `names_line`: the text has the line that requested the memory.
MessageVerdict verdict_of(const model::OomMessage& message, const MessageFigures& derived,
                          bool names_line, const AcceleratorNames& names);

// MPS always has a limit, whether the program sets one or not. It covers all memory of the process;
// other limits cover only what PyTorch reserves.
bool is_mps(const model::OomMessage& message);

// The sum of what the listed processes use.
std::uint64_t listed_bytes(const model::OomMessage& message);

// a - b, or 0 if b is larger, as rounded figures may be.
inline std::uint64_t minus_or_zero(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

}  // namespace plimsoll::findings

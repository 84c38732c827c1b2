// Estimates the memory that a failed step would have needed: the peak of its live bytes if every
// request had been served.
//
// The rest of the step is taken from an earlier step (alignment.h), with sizes scaled by what the
// failed step had allocated so far (sizes.h). If the optimizer's first step fails, the rest is the
// state of the parameters that have none yet (optimizer_need.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/oom/history.h"

namespace plimsoll::analysis::oom {

// Memory that is live at the estimated peak.
struct Part {
  std::uint32_t row = 0;  // of the device's lifetimes: itself or its counterpart in an earlier step
  std::uint64_t bytes = 0;
  bool scales = false;   // grows with the batch
  bool is_rest = false;  // not allocated when the request failed
};

// Live bytes at one point of the rest of the step.
struct Point {
  std::uint64_t fixed_bytes = 0;
  std::uint64_t scaling_bytes = 0;
};

struct Need {
  std::uint64_t bytes = 0;  // 0: unknown
  std::string basis;        // "earlier_step", "earlier_forward", "optimizer_state" or "unknown"
  std::string why_unknown;  // one clause, such as "no earlier step completed"
  std::vector<Part> parts;  // at the peak
  std::vector<Point> points;
  double ratio = 1.0;             // the size of the batch relative to the earlier step's
  std::uint64_t state_bytes = 0;  // optimizer state that the rest of the step allocates
  // The line outside the model that led to the request, if no earlier step called the model from
  // there, and the bytes of its activations.
  std::string new_caller;
  std::uint64_t caller_bytes = 0;
  // The earlier step that made the request that failed, and the row of that request in
  // History::made().
  std::optional<std::size_t> counterpart;
  Step earlier;
  std::uint64_t scratch_bytes = 0;  // temporaries that the optimizer computes with

  bool is_known() const { return bytes > 0; }
};

struct Failure {
  std::uint32_t event = 0;
  std::uint64_t requested_bytes = 0;
};

Need estimate_need(const History& history, const Failure& failure);

}  // namespace plimsoll::analysis::oom

// The allocations of a device before an out-of-memory error, as one sequence, and the steps in it.
// The estimate of what a failed step needed (need.h) compares the failed step with earlier ones.
//
// A step is the span between two marks of the recording. Snapshots have no marks: there, a step is
// a forward pass with the backward pass and the optimizer that follow. If there is no backward
// either, a step is a call of the root module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "analysis/evidence/stack_facts.h"
#include "model/sites.h"
#include "model/trace.h"
#include "model/user_line.h"

namespace plimsoll::analysis::oom {

// An event that never happens.
inline constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

struct Made {
  std::uint32_t row = 0;              // of the device's lifetimes
  std::uint32_t born = 0;             // event
  std::uint32_t died = kNever;        // event; kNever: live at the end
  std::uint64_t bytes = 0;            // as tables count them (model/live_set.h)
  std::uint64_t requested_bytes = 0;  // without padding, so that sizes can be compared
  std::uint64_t place = 0;            // equal for allocations of the same code
  bool scales = false;  // grows with the batch: activations and their gradients, inputs,
                        // temporaries
};

// The events [begin, end) of a step, and its allocations, [first, last) of the sequence.
struct Step {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::size_t first = 0;
  std::size_t last = 0;
};

class History {
 public:
  History(const model::Trace& trace, const model::DeviceTrace& device,
          const model::UserLines& lines);

  // Excludes memory that was live before it was first seen, and workspaces, which libraries
  // allocate once.
  const std::vector<Made>& made() const { return made_; }
  const model::Trace& trace() const { return trace_; }
  const model::DeviceTrace& device() const { return device_; }
  const model::UserLines& lines() const { return lines_; }
  const evidence::StackFacts& stacks() const { return stacks_; }

  // The steps that end before an event, oldest first, and the unfinished step that contains it. A
  // step with failed requests starts after the last of them.
  std::vector<Step> steps_before(std::uint32_t event) const;
  Step step_of(std::uint32_t event) const;

  // The place of a request that failed, comparable with Made::place.
  std::uint64_t place_of(const model::Site& site) const;

  // The first allocation that is born at an event or later.
  std::size_t first_after(std::uint32_t event) const;

  // Whether memory of this category grows with the batch.
  static bool scales(std::string_view category);

 private:
  Step make_step(std::uint32_t begin, std::uint32_t end) const;
  std::vector<std::uint32_t> marked_ends() const;
  std::vector<std::uint32_t> ends_of_rounds() const;
  std::vector<std::uint32_t> ends_of_calls() const;

  const model::Trace& trace_;
  const model::DeviceTrace& device_;
  const model::UserLines& lines_;
  evidence::StackFacts stacks_;
  std::vector<Made> made_;
  std::vector<std::uint32_t> ends_;      // of steps: before these events, ascending
  std::vector<std::uint32_t> failures_;  // events of failed requests
};

}  // namespace plimsoll::analysis::oom

// What could run through torch.utils.checkpoint, which computes again in backward what a forward
// keeps for it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

// What code keeps for backward at each run.
class Runs {
 public:
  // `begins`: events at which backwards begin, ascending. What is live after `waits_after` may be
  // for a backward after the recording.
  Runs(const Peak& peak, std::vector<std::uint32_t> begins, std::uint32_t waits_after)
      : peak_(peak), begins_(std::move(begins)), waits_after_(waits_after) {}
  // For a recording with marks of backward, which a forward that failed does not reach.
  explicit Runs(const Peak& peak);

  // Allocations are added by birth. Those with one number before one backward are one run.
  void add(std::uint32_t number, const Allocation& activation);
  // How much the peak falls if each run keeps only its last tensor until its backward needs the
  // others. Of the runs whose backward is not recorded, the largest runs again at the peak.
  std::uint64_t saving() const;

 private:
  using Key = std::pair<std::uint32_t, std::uint32_t>;  // number, event at which backward begins
  const Peak& peak_;
  std::vector<std::uint32_t> begins_;
  std::uint32_t waits_after_;
  std::map<Key, whatif::Run> runs_;
  std::map<Key, std::uint64_t> waiting_bytes_;
};

struct Checkpoint {
  std::string what;  // "Net.blocks.0…11"
  Parts parts;       // rows of Peak::live() that it makes, if they are known
  std::uint64_t saving_bytes = 0;
  bool is_turned_off = false;  // the layers have a checkpoint that does nothing in eval mode
};

// Layers side by side, of which the recording knows what each keeps.
std::optional<Checkpoint> layers_to_checkpoint(Peak& peak, const Explanation& explanation,
                                               report::Finding& finding);
// For a snapshot, which records no layers: a forward that another one calls repeatedly in one step.
// Frames show its file, line and function, but not its module.
std::optional<Checkpoint> forward_to_checkpoint(const Peak& peak, const Explanation& explanation,
                                                report::Finding& finding);

// "44.0 MiB of it: 12 × 3.7 MiB", or "44.0 MiB of it; the largest 30.0 MiB".
std::string sizes_text(const std::vector<std::uint64_t>& bytes);

// What the package whose code makes half of the parts or more offers; empty if there is none.
std::string_view advice_of_package(const Parts& parts, evidence::Remedy remedy);

// Whether the peak is in a forward that failed for lack of memory before its backward began.
bool ends_in_forward(const Peak& peak);

}  // namespace plimsoll::findings

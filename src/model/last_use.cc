#include "model/last_use.h"

#include <algorithm>
#include <array>

#include "model/categories.h"
#include "model/live_set.h"

namespace plimsoll::model {
namespace {

// A program keeps its model and its optimizer's state. Libraries keep their workspaces, and the
// buffers of collectives are read outside operators.
constexpr std::array kExemptCategories = {kParameter, kBuffer, kOptimizerState, kCommunication,
                                          kWorkspace};

// Whether the block waited for a stream after the program had freed it: kernels that no operator
// shows may use it.
bool waits_for_stream(const Lifetimes& lifetimes, std::size_t lifetime) {
  const std::uint32_t requested = lifetimes.free_requested[lifetime];
  const std::uint32_t completed = lifetimes.free_completed[lifetime];
  if (requested == kNone) return false;
  return requested == kBeforeRecording || completed == kNone || completed - requested > 1;
}

}  // namespace

bool is_kept_category(std::string_view category) {
  return std::ranges::find(kExemptCategories, category) != kExemptCategories.end();
}

LastUses::LastUses(const Trace& trace, const DeviceTrace& device)
    : trace_(trace), device_(device), is_exempt_category_(trace.strings.size()) {
  for (std::uint32_t id = 0; id < trace.strings.size(); ++id) {
    is_exempt_category_[id] = is_kept_category(trace.strings[StringId{id}]);
  }
}

bool LastUses::is_exempt(std::size_t lifetime) const {
  return is_exempt_category_[trace_.category(device_, lifetime).value] ||
         waits_for_stream(device_.lifetimes, lifetime);
}

std::uint32_t LastUses::freeable(std::size_t lifetime) const {
  const std::uint32_t died = death(device_.lifetimes, lifetime, default_liveness(device_));
  const std::uint32_t unused_from = device_.lifetimes.unused_from[lifetime];
  // The running operator uses its temporaries.
  const bool is_temporary = has(device_.lifetimes.flags[lifetime], LifetimeFlags::kTemporary);
  if (unused_from == kNone || is_temporary || is_exempt(lifetime)) return died;
  const std::uint32_t born = device_.lifetimes.alloc[lifetime];
  const std::uint32_t first = born == kNone ? 0 : born + 1;  // it is live after its own event
  return std::min(std::max(unused_from, first), died);
}

UsedAgain LastUses::used_again(std::size_t lifetime, std::int64_t event) const {
  if (is_exempt(lifetime)) return UsedAgain::kExempt;
  if (has(device_.lifetimes.flags[lifetime], LifetimeFlags::kTemporary)) return UsedAgain::kYes;
  if (device_.lifetimes.unused_from[lifetime] == kNone) return UsedAgain::kUnknown;
  return std::int64_t{freeable(lifetime)} <= event ? UsedAgain::kNo : UsedAgain::kYes;
}

}  // namespace plimsoll::model

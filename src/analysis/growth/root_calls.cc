#include "analysis/growth/root_calls.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "analysis/evidence/passes.h"
#include "analysis/growth/optimizer_rhythm.h"

namespace plimsoll::analysis::growth {
namespace {

using model::Phase;
using model::StringId;

constexpr std::size_t kFewestCalls = 8;  // inferred, so more must agree

struct Begins {
  std::vector<std::uint32_t> entered;   // calls that follow an allocation outside them
  std::vector<std::uint32_t> repeated;  // calls in which the first layer runs again
  std::uint32_t last = 0;               // last allocation in the current call
};

}  // namespace

RootCalls find_root_calls(const model::Trace& trace, const model::DeviceTrace& device) {
  if (!trace.has_layers() || !trace.has_phases()) return {};
  std::map<std::string_view, Begins> roots;
  std::string_view running;
  StringId first_layer{}, last_layer{};
  for (std::uint32_t event = 0; event < device.events.size(); ++event) {
    if (device.events.action[event] != model::Action::kAlloc) continue;
    const model::Site& site = trace.site(device, event);
    const Phase phase = site.phase;
    if (phase == Phase::kBackward || phase == Phase::kOptimizer) return {};
    const StringId layer = phase == Phase::kForward ? site.layer : StringId{};
    const std::string_view root = evidence::root_of(trace.strings[layer]);
    const bool is_entered = !root.empty() && root != running;
    if (is_entered) roots[root].entered.push_back(event);
    if (is_entered || (!root.empty() && layer == first_layer && layer != last_layer)) {
      roots[root].repeated.push_back(event);
    }
    if (is_entered) first_layer = layer;
    if (!root.empty()) roots[root].last = event;
    running = root;
    last_layer = layer;
  }
  for (const auto member : {&Begins::entered, &Begins::repeated}) {
    const auto most = std::ranges::max_element(
        roots, {}, [&](const auto& root) { return (root.second.*member).size(); });
    if (most == roots.end() || (most->second.*member).size() < kFewestCalls) continue;
    std::vector<std::uint32_t>& begins = most->second.*member;
    begins.erase(begins.begin());
    begins.push_back(most->second.last + 1);
    if (is_regular(begins)) return {std::string(most->first), std::move(begins)};
  }
  return {};
}

}  // namespace plimsoll::analysis::growth

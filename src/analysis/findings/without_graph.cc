#include "analysis/findings/without_graph.h"

#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "analysis/findings/backward_use.h"

namespace plimsoll::analysis::findings {

std::unordered_map<std::uint32_t, std::uint32_t> frees_without_graph(
    const Peak& peak, const std::function<bool(const PeakAllocation&)>& is_chosen) {
  struct Latest {  // lifetimes
    std::uint32_t before_last = model::kNone;
    std::uint32_t last = model::kNone;
    std::size_t pass = 0;
  };
  std::map<std::string_view, Latest> latest;  // by root
  std::unordered_map<std::uint32_t, std::uint32_t> freed;
  peak.for_each([&](const PeakAllocation& allocation) {
    if (!is_chosen(allocation)) return;
    auto& [before_last, last, pass] =
        latest[root_of(peak.trace().strings[peak.site(allocation).layer])];
    if (before_last != model::kNone) freed.emplace(before_last, allocation.born);
    const bool is_next_pass =
        std::exchange(pass, peak.evidence().pass(allocation.lifetime)) != pass;
    before_last = is_next_pass ? model::kNone : last;
    last = allocation.lifetime;
  });
  return freed;
}

}  // namespace plimsoll::analysis::findings

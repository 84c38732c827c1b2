#include "analysis/growth/appended.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "analysis/evidence/operators.h"
#include "model/live_set.h"

namespace plimsoll::analysis::growth {
namespace {

// A tensor and the smaller one from the same line before it, which is still live when it is made.
struct Link {
  std::size_t before;  // rows of the survivors
  std::size_t after;
};

// Within a step, a tensor counts as replaced only if it is freed immediately.
bool replaces(const model::DeviceTrace& device, const Survivor& after, const Survivor& before) {
  constexpr std::uint32_t kMostEvents = 8;
  const std::uint32_t born = device.lifetimes.alloc[after.lifetime];
  const std::uint32_t died =
      model::death(device.lifetimes, before.lifetime, model::Liveness::kAllocated);
  return died > born && died - born <= kMostEvents;
}

std::vector<Link> links_of(const model::Trace& trace, const model::DeviceTrace& device,
                           const model::UserLines& lines, const std::vector<Survivor>& survivor) {
  const evidence::Operators operators(trace);
  std::vector<Link> links;
  // By line and outermost operator: the tensors that nothing has been appended to yet, oldest
  // first. A line that appends to several tensors in turn, one per layer, appends to the oldest
  // first. Tensors that another operator of the same line resizes internally are kept apart.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<std::size_t>> tails_of;
  for (std::size_t row = 0; row < survivor.size(); ++row) {
    const model::Site& site = trace.birth(device, survivor[row].lifetime);
    if (!operators.called_at(site).has(evidence::Operator::kJoining)) continue;
    std::deque<std::size_t>& tails = tails_of[{lines.line(site.stack).value, site.op.value}];
    const Survivor& after = survivor[row];
    while (!tails.empty() && survivor[tails.front()].beyond < after.first) tails.pop_front();
    const bool is_next = !tails.empty() && (survivor[tails.front()].first < after.first ||
                                            replaces(device, after, survivor[tails.front()]));
    if (is_next) {
      const Survivor& before = survivor[tails.front()];
      const bool is_replaced = before.beyond <= after.first + 1;
      if (is_replaced && before.size_bytes < after.size_bytes) {
        links.push_back({tails.front(), row});
      }
      tails.pop_front();
    }
    tails.push_back(row);
  }
  return links;
}

// Keeps links for which a tensor of the size difference is live when the later tensor is made.
void keep_proven(const model::Trace& trace, const model::DeviceTrace& device,
                 const std::vector<Survivor>& survivor, std::vector<Link>& links) {
  // By size: the events at which such a tensor must be live, and the link each belongs to.
  std::unordered_map<std::uint64_t, std::map<std::uint32_t, std::size_t>> open;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto [before, after] = links[i];
    open[static_cast<std::uint64_t>(survivor[after].size_bytes - survivor[before].size_bytes)]
        .emplace(device.lifetimes.alloc[survivor[after].lifetime], i);
  }
  if (open.empty()) return;
  std::vector<bool> is_proven(links.size());
  const model::Lifetimes& lifetimes = device.lifetimes;
  for (std::size_t row = lifetimes.baseline_count; row < lifetimes.size(); ++row) {
    const auto found = open.find(trace.lifetime_bytes(device, row));
    if (found == open.end()) continue;
    auto& events = found->second;
    const std::uint32_t died = model::death(lifetimes, row, model::Liveness::kAllocated);
    for (auto each = events.upper_bound(lifetimes.alloc[row]);
         each != events.end() && each->first < died; each = events.erase(each)) {
      is_proven[each->second] = true;
    }
  }
  std::size_t next = 0;
  std::erase_if(links, [&](const Link&) { return !is_proven[next++]; });
}

// Drops links of tensors that grow only within one step, such as the features of a DenseNet.
void leave_links_across_steps(const std::vector<Survivor>& survivor, std::vector<Link>& links) {
  std::unordered_map<std::size_t, std::size_t> first_of;     // by row: the beginning of its chain
  std::unordered_map<std::size_t, std::uint32_t> last_step;  // by beginning of a chain
  for (const Link& link : links) {
    const auto found = first_of.find(link.before);
    const std::size_t first = found == first_of.end() ? link.before : found->second;
    first_of[link.after] = first;
    last_step[first] = survivor[link.after].first;
  }
  std::erase_if(links, [&](const Link& link) {
    const std::size_t first = first_of[link.after];
    return last_step[first] == survivor[first].first;
  });
}

void count_links(std::vector<Survivor>& survivor, const std::vector<Link>& links) {
  // Start with the last link of a chain, because a tensor lives as long as what is appended to it.
  for (const Link& link : std::vector(links.rbegin(), links.rend())) {
    Survivor& after = survivor[link.after];
    after.size_bytes -= survivor[link.before].size_bytes;
    after.is_appended = true;
    survivor[link.before].beyond = std::max(survivor[link.before].beyond, after.beyond);
  }
}

}  // namespace

void count_appended(const model::Trace& trace, const model::DeviceTrace& device,
                    const model::UserLines& lines, std::vector<Survivor>& survivor) {
  std::vector<Link> links = links_of(trace, device, lines, survivor);
  keep_proven(trace, device, survivor, links);
  leave_links_across_steps(survivor, links);
  count_links(survivor, links);
  std::erase_if(survivor, is_within_a_step);
}

}  // namespace plimsoll::analysis::growth

#include "findings/peak/owners.h"

#include <algorithm>

#include "findings/text.h"

namespace plimsoll::findings {
namespace {

// Names in a file may be arbitrarily long; real modules are nested less deeply.
constexpr int kMostLevels = 64;

}  // namespace

Owner owner_of_most(const std::map<std::string_view, std::uint64_t>& bytes_by_tensor,
                    double share) {
  Owner owner;
  for (const auto& [name, bytes] : bytes_by_tensor) owner.bytes += bytes;
  const std::uint64_t whole = owner.bytes;
  owner.tensors = bytes_by_tensor.size();
  for (int level = 0; level < kMostLevels; ++level) {
    // Names below the path, grouped by their next component.
    std::map<std::string_view, Owner> inside;
    const std::size_t begin = owner.path.empty() ? 0 : owner.path.size() + 1;
    for (const auto& [name, bytes] : bytes_by_tensor) {
      const bool is_inside = begin == 0 || (name.starts_with(owner.path) && name.size() > begin &&
                                            name[begin - 1] == '.');
      if (!is_inside) continue;
      Owner& next = inside[name.substr(0, name.find('.', begin))];
      next.bytes += bytes;
      ++next.tensors;
    }
    const auto most =
        std::ranges::max_element(inside, {}, [](const auto& each) { return each.second.bytes; });
    if (most == inside.end() || !is_at_least(most->second.bytes, share, whole)) return owner;
    owner = most->second;
    owner.path = std::string(most->first);
  }
  return owner;
}

}  // namespace plimsoll::findings

#include "report/digest.h"

#include <cstddef>

namespace plimsoll::report {
namespace {

// No name that a person has written is longer. Comparing names that are takes minutes.
constexpr std::size_t kMostNameBytes = 4096;

void bound(std::string& name) {
  if (name.size() <= kMostNameBytes) return;
  std::size_t end = kMostNameBytes;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0u) == 0x80u) --end;
  name.resize(end);
}

}  // namespace

void bound_names(Digest& digest) {
  for (DigestKey& key : digest.keys) {
    for (std::string* const name :
         {&key.layer, &key.op, &key.function, &key.text, &key.place, &key.example_layer}) {
      bound(*name);
    }
  }
  for (DigestRow& row : digest.rows) {
    for (DigestInstance& instance : row.uneven) bound(instance.layer);
    for (HeldBy& each : row.holders) {
      for (std::string* const name : {&each.holder.path, &each.holder.type, &each.holder.chain,
                                      &each.holder.other, &each.edit}) {
        bound(*name);
      }
    }
  }
  for (DigestPoint& point : digest.points) bound(point.layer);
  for (DigestModule& module : digest.modules) {
    bound(module.path);
    bound(module.type);
  }
}

}  // namespace plimsoll::report

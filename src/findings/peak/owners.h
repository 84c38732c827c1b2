// The module that owns most bytes of named tensors: "Net.tables" for "Net.tables.0.weight".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace plimsoll::findings {

struct Owner {
  std::string path;         // empty: the tensors have no module in common
  std::uint64_t bytes = 0;  // of its tensors
  std::size_t tensors = 0;
};

// The innermost module or tensor that has at least `share` of the bytes.
Owner owner_of_most(const std::map<std::string_view, std::uint64_t>& bytes_by_tensor, double share);

}  // namespace plimsoll::findings

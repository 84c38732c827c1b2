// Whose memory named tensors are: the module that owns most of them ("Net.tables" for
// "Net.tables.0.weight"), their parameters, and those that belong to embeddings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

struct Owner {
  std::string path;         // empty: the tensors have no module in common
  std::uint64_t bytes = 0;  // of its tensors
  std::size_t tensors = 0;
};

// The innermost module or tensor that has at least `share` of the bytes.
Owner owner_of_most(const std::map<std::string_view, std::uint64_t>& bytes_by_tensor, double share);

// The name of the parameter or buffer that it is, or that it is the gradient or the optimizer's
// state of; empty for other memory.
std::string_view parameter_of(const Allocation& allocation);

// The parameters that receive a dense gradient from the backward of an embedding.
std::set<std::string_view> dense_embeddings(const Peak& peak);

// The steps for embeddings whose gradients or state are large.
Steps steps_for_embeddings(const Peak& peak, const std::set<std::string_view>& names);

}  // namespace plimsoll::findings

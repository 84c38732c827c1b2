// The chains of references that the recorder's walks found (model/holders.h), as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/trace.h"

namespace plimsoll::analysis::holders {

// The rows of the links from the root to `link`.
std::vector<std::uint32_t> chain_to(const model::Trace& trace, std::uint32_t link);

// Whether what follows in the chain is held by the graph of autograd, or by a tensor.
constexpr bool is_of_tensor(plimsoll_link_kind kind) {
  switch (kind) {
    case PLIMSOLL_LINK_GRAD_FN:
    case PLIMSOLL_LINK_NODE:
    case PLIMSOLL_LINK_SAVED:
    case PLIMSOLL_LINK_GRADIENT:
    case PLIMSOLL_LINK_BASE:
      return true;
    default:
      return false;
  }
}

// A queue, which keeps its items in a container of its own.
constexpr bool is_queue_type(std::string_view type) {
  return type == "Queue" || type == "LifoQueue" || type == "PriorityQueue";
}

// Of a parameter, buffer or module of a module: the outermost module around it. Others themselves.
std::uint32_t model_of(const model::Trace& trace, std::uint32_t link);

// "trainer.losses", "kept in train (train.py:40)": how the program names what the link leads to.
// `[*]` stands for all items of a container.
std::string path_text(const model::Trace& trace, std::uint32_t link);
// The same with the graph: "trainer.losses[*] → PowBackward0 → … → saved self".
std::string chain_text(const model::Trace& trace, std::uint32_t link);
// The graph alone: "PowBackward0 → … → saved self".
std::string graph_text(const model::Trace& trace, std::uint32_t link);
// "keep (train.py:12)": the function that the link leads to, or the place of a frame. Empty if the
// link has no file.
std::string place_text(const model::Trace& trace, std::uint32_t link);

}  // namespace plimsoll::analysis::holders

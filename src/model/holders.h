// What holds live memory: the chains of references from the program's roots to its tensors, as the
// recorder's walks found them. plimsoll/holders_c.h says what a link is.
#pragma once

#include <cstdint>
#include <vector>

#include "model/ids.h"
#include "plimsoll/holders_c.h"

namespace plimsoll::model {

struct HolderWalk {
  std::int64_t time_ns = kNoTime;
  std::uint64_t objects = 0;
  std::uint64_t nodes = 0;
  std::uint64_t duration_ns = 0;
  plimsoll_walk_end end = PLIMSOLL_WALK_COMPLETE;
};

struct HolderLink {
  std::uint32_t parent = 0;  // row of the link before it; 0: this is a root
  std::uint32_t walk = 0;    // row of Holders::walks
  StringId name;             // 0: none or unknown
  StringId type;             // class of the object that it leads to
  StringId file;
  std::uint32_t line = 0;
  plimsoll_link_kind kind = PLIMSOLL_LINK_OTHER;
  std::uint64_t length = 0;  // entries of that object
  std::uint64_t limit = 0;   // the most that it keeps; 0: no limit
};

struct HolderCut {
  std::uint32_t link = 0;   // rows of Holders::links
  std::uint32_t other = 0;  // 0: none
  std::uint64_t freed_count = 0;
  std::uint64_t freed_bytes = 0;
  std::uint64_t left_count = 0;
  std::uint64_t left_bytes = 0;
  bool is_native = false;
};

// Parents come before their links. The last link of the chain to an allocation is in
// Lifetimes::holder, from the last walk that reached it.
struct Holders {
  std::vector<HolderWalk> walks;                // in the order in which they were made
  std::vector<HolderLink> links{HolderLink{}};  // row 0: none
  std::vector<HolderCut> cuts;
};

}  // namespace plimsoll::model

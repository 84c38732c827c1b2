// What holds memory, as the recorder's walks found it.
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"

namespace plimsoll::report {

// A node of the tree of holders. Its children follow it, most bytes first, one level deeper.
struct HolderRow {
  std::int32_t device = 0;
  std::uint64_t depth = 0;
  std::string name;  // below the name of the node above it
  std::string path = {};
  std::string type = {};
  std::uint64_t length = 0;
  std::uint64_t limit = 0;
  std::string place = {};
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  bool is_cut = false;
  std::uint64_t freed_bytes = 0;
  std::uint64_t left_bytes = 0;
  std::string other = {};
  bool is_native = false;
  std::string edit = {};

  static constexpr auto fields() {
    using base::Field;
    return base::field_list(
        Field{"device", &HolderRow::device,
              "Device index; -1 for the CPU, -2 for pinned host memory."},
        Field{"depth", &HolderRow::depth,
              "0 for a root. The rows below a row follow it and have a greater depth."},
        Field{"name", &HolderRow::name,
              "What it is called in the row above; of a graph, its nodes; [other: 4 groups] for "
              "rows that are left out."},
        Field{"path", &HolderRow::path,
              "What the program calls it, such as trainer.losses; empty if it has no name."},
        Field{"type", &HolderRow::type, "Its class; may be empty."},
        Field{"length", &HolderRow::length, "Its entries; 0 if it is not a container."},
        Field{"limit", &HolderRow::limit, "The most entries that it keeps; 0: no limit."},
        Field{"place", &HolderRow::place,
              "The line of a function or frame: keep (train.py:12); else empty."},
        Field{"bytes", &HolderRow::bytes, "Live bytes whose shortest chain goes through it."},
        Field{"count", &HolderRow::count, "Number of these allocations."},
        Field{"is_cut", &HolderRow::is_cut,
              "True if the references from elsewhere were counted; the next fields are known only "
              "then."},
        Field{"freed_bytes", &HolderRow::freed_bytes,
              "Bytes of all that it holds that nothing else holds, when the recorder looked."},
        Field{"left_bytes", &HolderRow::left_bytes, "Bytes of it that others hold, too."},
        Field{"other", &HolderRow::other, "One of these others; empty if none is known."},
        Field{"is_native", &HolderRow::is_native, "True if native code holds some of it, too."},
        Field{"edit", &HolderRow::edit,
              "If it was cut: the edit to the program that ends what it holds; empty for what the "
              "model and its optimizer hold."});
  }
};

}  // namespace plimsoll::report

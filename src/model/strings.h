// StringTable stores every distinct string of a trace once. Views are valid as long as the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tsl/robin_map.h>

#include "model/ids.h"

namespace plimsoll::model {

class StringTable {
 public:
  StringTable() { intern(""); }
  StringTable(StringTable&&) = default;
  StringTable& operator=(StringTable&&) = default;

  StringId intern(std::string_view text);
  std::string_view operator[](StringId id) const { return views_[id.index()]; }
  std::size_t size() const { return views_.size(); }
  // Gives every id another text, by row. Equal texts are allowed; intern() then returns the first.
  void replace(const std::vector<std::string>& texts);
  std::size_t memory_bytes() const;

 private:
  std::string_view keep(std::string_view text);

  struct Hash {
    std::size_t operator()(std::string_view text) const;
  };
  std::vector<std::string_view> views_;
  tsl::robin_map<std::string_view, std::uint32_t, Hash> ids_;
  std::vector<std::unique_ptr<char[]>> chunks_;  // the text; a chunk never moves
  std::size_t chunk_used_ = 0;
  std::size_t chunk_size_ = 0;
  std::size_t text_bytes_ = 0;
};

}  // namespace plimsoll::model

// PickleWriter: streams one pickle (protocol 4) of dicts, lists, pairs, strings and numbers, in the
// form of CPython's own pickler: frames of about 64 KiB, lists in batches of 1000 (PyTorch's viewer
// passes a whole batch as arguments of one call). Memo entries are created only on request:
// remember() stores the value just written, recall() writes it again.
//
//   ]        list()          }        dict()         K M J 0x8a  integer
//   ( … e    its items       ( … u    its items      q r / h j   remember / recall
//
// Memo indexes are explicit (BINPUT), so that the caller may reserve the first 256, which are
// cheapest to recall, for its most frequent strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/exporter.h"
#include "plimsoll/result.h"

namespace plimsoll::exporters::torch_snapshot {

class PickleWriter {
 public:
  explicit PickleWriter(Output& output);

  void dict() { buffer_ += '}'; }  // then optionally remember(), then the items
  void begin_dict_items() { buffer_ += '('; }
  void end_dict_items() { buffer_ += 'u'; }
  void list();  // then optionally remember(), then item() before each item, then end_list()
  void item();
  void end_list();
  void make_pair() { buffer_ += '\x86'; }  // from the two values just written

  void integer(std::uint64_t value);
  void integer(std::int64_t value);
  void real(double value);
  void boolean(bool value) { buffer_ += value ? '\x88' : '\x89'; }  // a pickled boolean
  // Bytes that Python cannot decode become U+FFFD.
  void string(std::string_view text);

  void remember(std::uint32_t place);
  void recall(std::uint32_t place);

  // False after a failed write, so that loops can stop.
  bool ok() const { return status_.ok(); }
  Status finish();

 private:
  void little_endian(std::uint64_t value, std::size_t len);
  void long_integer(std::uint64_t low, std::uint8_t sign_byte);
  void flush();

  Output& output_;
  Status status_;
  std::string buffer_;
  std::vector<std::uint32_t> batches_;  // items in the open batch of each open list
};

}  // namespace plimsoll::exporters::torch_snapshot

// Reads the output of `nvidia-smi --query-gpu=... --format=csv` in all its variants: with and
// without header and units, repeated headers, columns in any order, line breaks inside quotes. A
// sample is one round over the GPUs, and its iteration is the round's number; devices are "gpu:N",
// or named by another distinguishing column.
//
// Without a header, the memory columns are known only at the end of the log: rows are stored until
// then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/memory_sample.h"
#include "plimsoll/result.h"

namespace plimsoll::logs {

class NvidiaSmiLog {
 public:
  using Sink = std::function<void(const MemorySample&)>;

  // Whether a line is a header, or a row with units, of such a log.
  static bool knows(std::string_view line);
  // Whether a line can only come from the tables that a bare `nvidia-smi` prints.
  static bool is_table(std::string_view line);

  void line(std::string_view line);
  // An error if the log has no used memory; `path` is for the message.
  Status finish(const std::string& path, const Sink& sink);

  std::uint64_t unread_lines() const { return unread_lines_; }

 private:
  static constexpr std::size_t kMostSizes = 3;
  static constexpr std::size_t kIdColumns = 5;
  using Id = std::array<std::string, kIdColumns>;
  struct Row {
    std::int64_t time_ns = 0;  // 0: unknown
    std::uint32_t device = 0;  // index into ids_
    std::array<std::optional<std::uint64_t>, kMostSizes> sizes;
  };
  // The columns of a row; with a header, the sizes are used, free and total.
  struct Columns {
    std::size_t width = 0;
    std::optional<std::size_t> time;
    std::array<std::optional<std::size_t>, kIdColumns> ids;
    std::array<std::optional<std::size_t>, kMostSizes> sizes;
  };
  struct Roles {
    std::optional<std::size_t> used, free, total;  // indices into Row::sizes
  };

  static std::optional<Columns> columns_of_header(const std::vector<std::string>& fields);
  static std::optional<Columns> columns_of_row(const std::vector<std::string>& fields);
  void take(const std::vector<std::string>& fields);
  bool take_row(const std::vector<std::string>& fields);
  std::optional<std::uint32_t> device_of(Id id);
  Roles roles() const;
  std::vector<std::string> device_names() const;

  std::string open_row_;  // row with an unclosed quote
  std::size_t open_lines_ = 0;
  std::optional<Columns> columns_;
  bool has_header_ = false;
  std::vector<Row> rows_;
  std::map<Id, std::uint32_t> ids_;
  std::uint32_t position_ = 0;  // within a round, if no column distinguishes the GPUs
  std::uint64_t unread_lines_ = 0;
};

}  // namespace plimsoll::logs

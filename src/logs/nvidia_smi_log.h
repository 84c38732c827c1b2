// Reads what `nvidia-smi --query-gpu=... --format=csv` wrote, in all shapes that are met: with and
// without header and units, headers repeated, columns in any order, line breaks inside quotes. A
// sample is one round through the GPUs, its iteration the round's number; devices are "gpu:N", or
// what else tells them apart.
//
// Which columns hold memory is known at the end, where there is no header: rows are kept till then.
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

  // Whether a line is a header or a row with units of such a log.
  static bool knows(std::string_view line);
  // Whether a line can only be of the tables that a bare `nvidia-smi` prints.
  static bool is_table(std::string_view line);

  void line(std::string_view line);
  // An error where the log does not tell how much memory is used; `path` is for the sentence.
  Status finish(const std::string& path, const Sink& sink);

  std::uint64_t unread_lines() const { return unread_lines_; }

 private:
  static constexpr std::size_t kMostSizes = 3;
  static constexpr std::size_t kIdColumns = 5;
  using Id = std::array<std::string, kIdColumns>;
  struct Row {
    std::int64_t time_ns = 0;  // 0: unknown
    std::uint32_t device = 0;  // of ids_
    std::array<std::optional<std::uint64_t>, kMostSizes> sizes;
  };
  // Where a row has what; of sizes with a header: used, free, total.
  struct Columns {
    std::size_t width = 0;
    std::optional<std::size_t> time;
    std::array<std::optional<std::size_t>, kIdColumns> ids;
    std::array<std::optional<std::size_t>, kMostSizes> sizes;
  };
  struct Roles {
    std::optional<std::size_t> used, free, total;  // of Row::sizes
  };

  static std::optional<Columns> columns_of_header(const std::vector<std::string>& fields);
  static std::optional<Columns> columns_of_row(const std::vector<std::string>& fields);
  void take(const std::vector<std::string>& fields);
  bool take_row(const std::vector<std::string>& fields);
  std::optional<std::uint32_t> device_of(Id id);
  Roles roles() const;
  std::vector<std::string> device_names() const;

  std::string open_row_;  // with a quote that is not closed yet
  std::size_t open_lines_ = 0;
  std::optional<Columns> columns_;
  bool has_header_ = false;
  std::vector<Row> rows_;
  std::map<Id, std::uint32_t> ids_;
  std::uint32_t position_ = 0;  // in a round, where nothing else tells GPUs apart
  std::uint64_t unread_lines_ = 0;
};

}  // namespace plimsoll::logs

// The memory data of `nsys stats`, parsed from its CSV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/style.h"

namespace plimsoll::nsys {

// The reports to request, by their names in nsys since 2022.
const std::vector<std::string>& nsys_reports();

// One kind of copy or fill on the device.
struct NsysOperation {
  std::string name;
  double size_bytes = 0;  // nsys prints megabytes of 10^6 bytes, with three decimals
  double largest_bytes = 0;
  std::uint64_t count = 0;
  std::int64_t time_ns = 0;
};

// One function that allocates memory from the driver, or frees it.
struct NsysCall {
  std::string name;
  std::uint64_t count = 0;
  std::int64_t time_ns = 0;
  std::int64_t longest_ns = 0;
};

struct NsysSummary {
  std::size_t tables = 0;                 // recognized tables
  std::size_t skipped = 0;                // reports without data
  std::vector<NsysOperation> operations;  // most bytes first
  std::vector<NsysCall> calls;            // most time first
};

// Reads every recognized table; lines of any other form are skipped.
NsysSummary read_nsys_stats(std::string_view csv);

std::string nsys_summary_text(const NsysSummary& summary, std::size_t width, text::Color color);

}  // namespace plimsoll::nsys

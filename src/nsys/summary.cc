#include "nsys/summary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "base/units.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::nsys {
namespace {

constexpr double kMegabyte = 1e6;
constexpr double kMost = 1e15;  // upper limit of values: sums of hostile numbers stay finite
constexpr std::size_t kMostRows = 20;

// Splits a line of CSV; quoted cells may contain commas, and a doubled quote is one quote.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char letter = line[i];
    if (letter == '"') {
      const bool is_doubled = is_quoted && i + 1 < line.size() && line[i + 1] == '"';
      if (is_doubled) cells.back() += line[++i];
      if (!is_doubled) is_quoted = !is_quoted;
    } else if (letter == ',' && !is_quoted) {
      cells.emplace_back();
    } else {
      cells.back() += letter;
    }
  }
  return cells;
}

// A row whose cells are accessed by column name.
class Row {
 public:
  Row(const std::vector<std::string>& header, const std::vector<std::string>& cells)
      : header_(header), cells_(cells) {}

  const std::string& text(std::string_view column) const {
    static const std::string kNone;
    const auto found = std::ranges::find(header_, column);
    const auto at = static_cast<std::size_t>(found - header_.begin());
    return at < cells_.size() ? cells_[at] : kNone;
  }
  double number(std::string_view column) const {
    const std::string& cell = text(column);
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    return error == std::errc() && std::isfinite(value) && value >= 0 ? std::min(value, kMost) : 0;
  }

 private:
  const std::vector<std::string>& header_;
  const std::vector<std::string>& cells_;
};

bool has(const std::vector<std::string>& header, std::string_view column) {
  return std::ranges::find(header, column) != header.end();
}

enum class TableKind : std::uint8_t { kNone, kSizes, kTimes, kCalls };

TableKind kind_of(const std::vector<std::string>& header) {
  if (has(header, "Operation") && has(header, "Total (MB)")) return TableKind::kSizes;
  if (has(header, "Operation") && has(header, "Total Time (ns)")) return TableKind::kTimes;
  if (has(header, "Num Calls") && has(header, "Total Time (ns)") && has(header, "Name")) {
    return TableKind::kCalls;
  }
  return TableKind::kNone;
}

// "[CUDA memcpy Host-to-Device]" -> "memcpy Host-to-Device".
std::string operation_name(std::string name) {
  std::erase_if(name, [](char letter) { return letter == '[' || letter == ']'; });
  return name.starts_with("CUDA ") ? name.substr(5) : name;
}

// "cudaMalloc_v3020" -> "cudaMalloc".
std::string call_name(const std::string& name) {
  const std::size_t version = name.rfind("_v");
  const bool is_version = version != std::string::npos && version + 2 < name.size() &&
                          name.find_first_not_of("0123456789", version + 2) == std::string::npos;
  return is_version ? name.substr(0, version) : name;
}

bool is_of_memory(const std::string& name) {
  constexpr std::array<std::string_view, 12> kBeginnings = {
      "cudaMalloc",  "cudaFree",   "cudaHostAlloc", "cudaHostRegister",
      "cudaMemPool", "cuMemAlloc", "cuMemFree",     "cuMemHostAlloc",
      "cuMemCreate", "cuMemMap",   "cuMemUnmap",    "cuMemRelease"};
  return std::ranges::any_of(
      kBeginnings, [&](std::string_view beginning) { return name.starts_with(beginning); });
}

struct Gathered {
  std::map<std::string, NsysOperation> operations;
  std::map<std::string, NsysCall> calls;
};

void take(TableKind kind, const Row& row, Gathered& gathered) {
  if (kind == TableKind::kCalls) {
    const std::string name = call_name(row.text("Name"));
    if (!is_of_memory(name)) return;
    NsysCall& call = gathered.calls[name];
    call.name = name;
    call.count += static_cast<std::uint64_t>(row.number("Num Calls"));
    call.time_ns += static_cast<std::int64_t>(row.number("Total Time (ns)"));
    call.time_ns = std::min(call.time_ns, static_cast<std::int64_t>(kMost));
    call.longest_ns = std::max(call.longest_ns, static_cast<std::int64_t>(row.number("Max (ns)")));
    return;
  }
  const std::string name = operation_name(row.text("Operation"));
  NsysOperation& operation = gathered.operations[name];
  operation.name = name;
  operation.count = static_cast<std::uint64_t>(row.number("Count"));
  if (kind == TableKind::kTimes) {
    operation.time_ns = static_cast<std::int64_t>(row.number("Total Time (ns)"));
  } else {
    operation.size_bytes = row.number("Total (MB)") * kMegabyte;
    operation.largest_bytes = row.number("Max (MB)") * kMegabyte;
  }
}

template <typename T>
std::vector<T> values(std::map<std::string, T>& from) {
  std::vector<T> list;
  for (auto& [name, value] : from) list.push_back(std::move(value));
  return list;
}

}  // namespace

const std::vector<std::string>& nsys_reports() {
  static const std::vector<std::string> kReports = {"cuda_gpu_mem_size_sum",
                                                    "cuda_gpu_mem_time_sum", "cuda_api_sum"};
  return kReports;
}

NsysSummary read_nsys_stats(std::string_view csv) {
  NsysSummary summary;
  Gathered gathered;
  TableKind kind = TableKind::kNone;
  std::vector<std::string> header;
  while (!csv.empty()) {
    std::string_view line = csv.substr(0, csv.find('\n'));
    csv.remove_prefix(std::min(line.size() + 1, csv.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("SKIPPED")) ++summary.skipped;
    std::vector<std::string> cells = cells_of(line);
    if (const TableKind begun = kind_of(cells); begun != TableKind::kNone) {
      kind = begun;
      header = std::move(cells);
      ++summary.tables;
    } else if (cells.size() != header.size()) {
      kind = TableKind::kNone;  // the table has ended
    } else if (kind != TableKind::kNone) {
      take(kind, Row(header, cells), gathered);
    }
  }
  summary.operations = values(gathered.operations);
  summary.calls = values(gathered.calls);
  std::ranges::sort(summary.operations, std::ranges::greater(), &NsysOperation::size_bytes);
  std::ranges::sort(summary.calls, std::ranges::greater(), &NsysCall::time_ns);
  return summary;
}

std::string nsys_summary_text(const NsysSummary& summary, std::size_t width, text::Color color) {
  using text::TextTable;
  const auto title = [&](const char* text) {
    return text::styled(text, text::Style::kBold, color) + "\n";
  };
  std::string text;
  if (!summary.operations.empty()) {
    TextTable table(
        {{"SIZE"}, {"COUNT"}, {"LARGEST"}, {"TIME"}, {"OPERATION", TextTable::Align::kWords}});
    for (std::size_t i = 0; i < std::min(kMostRows, summary.operations.size()); ++i) {
      const NsysOperation& row = summary.operations[i];
      table.add_row({base::bytes_text(row.size_bytes), base::format_count(row.count),
                     base::bytes_text(row.largest_bytes), base::format_duration(row.time_ns),
                     text::printable(row.name)});
    }
    text += title("Copies and fills on the device") + table.to_text(width, color);
  }
  if (!summary.calls.empty()) {
    TextTable table({{"CALLS"}, {"TIME"}, {"LONGEST"}, {"CALL", TextTable::Align::kWords}});
    for (std::size_t i = 0; i < std::min(kMostRows, summary.calls.size()); ++i) {
      const NsysCall& row = summary.calls[i];
      table.add_row({base::format_count(row.count), base::format_duration(row.time_ns),
                     base::format_duration(row.longest_ns), text::printable(row.name)});
    }
    if (!text.empty()) text += "\n";
    text += title("Calls that allocate memory from the driver or free it") +
            table.to_text(width, color);
  }
  if (text.empty()) text = "nsys recorded no copies on a GPU and no calls for its memory.\n";
  return text;
}

}  // namespace plimsoll::nsys

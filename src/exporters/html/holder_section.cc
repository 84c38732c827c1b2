#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/finding.h"
#include "base/units.h"
#include "exporters/html/sections.h"
#include "exporters/labels.h"
#include "exporters/point_text.h"
#include "page/escape.h"
#include "report/holders.h"
#include "report/rest_row.h"

namespace plimsoll::exporters::html {
namespace {

using report::HolderRow;
using HolderRows = std::span<const HolderRow* const>;

constexpr double kOpen = 0.1;  // of all rows: larger ones begin open
constexpr const char* kNoReference = "[no reference to it was found]";

// "free without it: 18.0 MiB; also held by cache: 2.0 MiB"
std::string cut_text(const HolderRow& row) {
  if (!row.is_cut) return {};
  const bool is_only = row.left_bytes == 0 && !row.is_native;
  std::string text;
  if (is_only || row.freed_bytes > 0) text = "free without it: " + bytes_text(row.freed_bytes);
  if (is_only) return text;
  text += (text.empty() ? "also held by " : "; also held by ") +
          (row.other.empty() ? "native code" : page::shortened(row.other, kLongestName));
  return row.left_bytes == 0 ? text : text + ": " + bytes_text(row.left_bytes);
}

class HolderTree {
 public:
  HolderTree(Markup& html, std::uint64_t bytes, std::uint64_t all_bytes)
      : html_(html), bytes_(bytes), all_bytes_(all_bytes) {}

  // Rows of this depth, each with those below it.
  void write(HolderRows rows) {
    for (std::size_t begin = 0; begin < rows.size();) {
      std::size_t end = begin + 1;
      while (end < rows.size() && rows[end]->depth > rows[begin]->depth) ++end;
      write_node(*rows[begin], rows.subspan(begin + 1, end - begin - 1));
      begin = end;
    }
  }

 private:
  void write_node(const HolderRow& row, HolderRows below) {
    if (below.empty()) {
      html_.open("div", {{"class", "leaf"}});
      write_row(row);
      html_.close();
      return;
    }
    const bool is_large = static_cast<double>(row.bytes) >= kOpen * static_cast<double>(bytes_);
    if (is_large) {
      html_.open("details", {{"open", ""}});
    } else {
      html_.open("details");
    }
    html_.open("summary");
    write_row(row);
    html_.close().open("div", {{"class", "below"}});
    write(below);
    html_.close().close();
  }

  void write_row(const HolderRow& row) {
    const bool is_rest = report::groups_in_rest(row.name).has_value() || row.name == kNoReference;
    html_.open("span", {{"class", is_rest ? "holder rest" : "holder"},
                        {"data-holder", page::shortened(row.name, kLongestName)},
                        {"data-bytes", std::to_string(row.bytes)},
                        {"title", page::shortened(row.path, kLongestName)}});
    html_.open("span", {{"class", "what"}});
    html_.open("span", {{"class", is_rest ? "" : "mono"}});
    write_breakable(html_, row.name);
    html_.close();
    if (const std::string type = holder_type_text(row.type, row.length, row.limit); !type.empty()) {
      html_.text(" ").element("span", {{"class", "muted"}}, page::shortened(type, kLongestName));
    }
    if (!row.place.empty()) {
      html_.text(" ").open("span", {{"class", "muted"}});
      write_breakable(html_, row.place);
      html_.close();
    }
    if (const std::string cut = cut_text(row); !cut.empty()) {
      html_.open("span", {{"class", "cut"}});
      write_breakable(html_, cut);
      html_.close();
    }
    html_.close();
    html_.element("span", {{"class", "n"}, {"title", base::format_count(row.bytes) + " bytes"}},
                  bytes_text(row.bytes));
    const double share =
        all_bytes_ == 0 ? 0 : static_cast<double>(row.bytes) / static_cast<double>(all_bytes_);
    html_.element("span", {{"class", "n"}}, base::format_percent(share));
    html_.element("span", {{"class", "n count"}},
                  row.count > 0 ? base::format_count(row.count) : "");
    html_.close();
  }

  Markup& html_;
  std::uint64_t bytes_;
  std::uint64_t all_bytes_;
};

}  // namespace

void write_holders(Markup& html, const DeviceView& view) {
  const auto rows = rows_of(view.input.report.tables.holders, view.report);
  if (rows.empty() || view.point == nullptr) return;
  std::uint64_t held = 0;
  std::uint64_t count = 0;
  for (const HolderRow* const row : rows) {
    if (row->depth > 0) continue;
    held += row->bytes;
    count += row->count;
  }
  html.open("section",
            {{"data-section", "holders"}, {"id", "holders-" + std::to_string(view.number)}});
  html.open("div", {{"class", "head"}}).element("h2", {}, "What holds the memory");
  html.element("span", {{"class", "sub"}},
               place_in_time(*view.point) +
                   "; each allocation counts once, below the shortest chain of references to it")
      .close();
  write_fixed_point(html, "The holders", place_in_time(*view.point));
  const std::uint64_t live = view.point->live_bytes + older_bytes(*view.point);
  html.open("div", {{"class", "tree"}});
  html.open("div", {{"class", "holder titles"}}).element("span", {}, "holder");
  html.element("span", {{"class", "n"}}, "bytes").element("span", {{"class", "n"}}, "share");
  html.element("span", {{"class", "n count"}}, "count").close();
  HolderTree tree(html, held, live);
  tree.write(rows);
  if (live > held) {
    HolderRow rest;
    rest.name = kNoReference;
    rest.bytes = live - held;
    if (view.point->live_count > count) rest.count = view.point->live_count - count;
    const HolderRow* const one = &rest;
    tree.write({&one, 1});
  }
  html.close().close();
}

}  // namespace plimsoll::exporters::html

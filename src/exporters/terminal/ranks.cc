#include "exporters/terminal/ranks.h"

#include "base/units.h"
#include "exporters/labels.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::exporters::terminal {
namespace {

std::string step_at_peak(const comparison::RankRow& rank) {
  if (rank.peak == nullptr || !rank.peak->step) return "";
  return base::format_count(*rank.peak->step) +
         (rank.peak->layer.empty() ? "" : " in " + text::printable(rank.peak->layer));
}

text::Style style_of(const comparison::RankRow& rank) {
  if (rank.first_oom != nullptr) return text::Style::kCritical;
  return rank.differs ? text::Style::kWarning : text::Style::kPlain;
}

}  // namespace

std::string ranks_table(const comparison::RankComparison& comparison,
                        const std::vector<report::Report>& reports, const TextOptions& options) {
  using enum text::TextTable::Align;
  const bool has_median = comparison.ranks.size() > 2;
  text::TextTable table({{"rank"},
                         {"peak"},
                         {has_median ? "to the median" : "above " + comparison.reference},
                         {"at the end"},
                         {"device", kWords},
                         {"peak at step", kWords},
                         {"file", kWords}});
  for (const comparison::RankRow& rank : comparison.ranks) {
    const std::string device = rank.device != nullptr ? device_name(*rank.device) : "-";
    const std::string end =
        rank.device != nullptr ? base::bytes_text(rank.device->live_totals().end_bytes) : "-";
    table.add_row({std::to_string(rank.number), base::bytes_text(rank.peak_bytes),
                   (rank.difference_bytes > 0 ? "+" : "") + base::bytes_text(rank.difference_bytes),
                   end, device + (rank.first_oom != nullptr ? ", out of memory" : ""),
                   step_at_peak(rank), text::printable(reports[rank.report].source.path)},
                  style_of(rank));
  }
  return table.to_text(options.width, options.color);
}

}  // namespace plimsoll::exporters::terminal

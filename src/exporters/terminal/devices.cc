#include "exporters/terminal/devices.h"

#include <utility>
#include <vector>

#include "exporters/device_facts.h"
#include "exporters/labels.h"
#include "text/layout.h"
#include "text/table.h"

namespace plimsoll::exporters::terminal {
namespace {

std::string totals_text(const report::DeviceReport& device, std::size_t width, text::Color color) {
  using enum text::TextTable::Align;
  std::vector<text::TextTable::Column> columns = {{"", kWords}, {"end"}};
  if (device.events > 0) {
    columns = {{"", kWords}, {"start"}, {"peak"}, {"end"}, {"peak reached at", kWords}};
  }
  text::TextTable table(std::move(columns));
  for (const TotalsRow& row : totals_rows(device)) {
    if (device.events == 0) {
      table.add_row({row.name, row.end});
    } else {
      table.add_row({row.name, row.start, row.peak, row.end, row.reached_at});
    }
  }
  std::string out = table.empty() ? "" : table.to_text(width, color);
  if (const std::string why = disagreement_text(device); !why.empty()) {
    out += "  " + text::wrap(why, 2, width) + "\n";
  }
  return out;
}

// "  name       text"; further lines of the text are indented to the same column.
std::string labelled(const Fact& fact, std::size_t width, text::Color color) {
  constexpr std::size_t kIndent = 17;
  return text::styled(text::pad_right("  " + fact.label, kIndent), text::Style::kDim, color) +
         text::wrap(fact.text, kIndent, width) + "\n";
}

}  // namespace

std::string bold_line(const std::string& text, text::Color color) {
  return text::styled(text, text::Style::kBold, color) + "\n";
}

std::string device_text(const report::DeviceReport& device, std::size_t width, text::Color color) {
  std::string out = text::styled(device_name(device), text::Style::kBold, color) + "  " +
                    events_text(device) + "\n" + totals_text(device, width, color);
  for (const Fact& fact : facts_of(device)) out += labelled(fact, width, color);
  return out;
}

}  // namespace plimsoll::exporters::terminal

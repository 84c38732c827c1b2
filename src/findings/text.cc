#include "findings/text.h"

namespace plimsoll::findings {

std::string joined(std::span<const std::string> texts, std::string_view separator) {
  std::string text;
  for (const std::string& each : texts.first(std::min(kNamed, texts.size()))) {
    text += (text.empty() ? std::string() : std::string(separator)) + each;
  }
  return text;
}

std::string holders_text(std::span<const report::GroupRow> rows) {
  std::vector<std::string> texts;
  for (const report::GroupRow& row : rows) {
    texts.push_back(row.key + " " + bytes_text(row.bytes) + " (" + base::format_percent(row.share) +
                    ")");
  }
  return joined(texts);
}

}  // namespace plimsoll::findings

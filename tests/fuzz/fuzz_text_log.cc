// Feeds bytes to the reader of text logs as a file. The summary accepts every sample found, and a
// log written from them is read back unchanged.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accepted.h"
#include "base/check.h"
#include "base/json_writer.h"
#include "logs/reader.h"
#include "logs/summary.h"
#include "text_log/text_log.h"

namespace {

using namespace plimsoll;

std::string rewritten(std::string_view log) {
  std::string text = text_log::text_log_header(0);
  const auto take = [&](const logs::SamplePlace&, const MemorySample& sample) {
    text += text_log::text_log_snapshot(sample, {});
  };
  const auto contents = logs::read_log_bytes(log, "log", take);
  PLIMSOLL_CHECK(contents.ok() || !contents.error().message.empty());
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  logs::LogSummarizer summarizer(alerts::DetectionOptions{});
  bool is_text_log = false;
  const auto contents = logs::read_log_bytes(
      bytes, "log", [&](const logs::SamplePlace& place, const MemorySample& sample) {
        is_text_log = place.format == logs::LogFormat::kTextLog;
        summarizer.add(sample);
      });
  if (!contents.ok()) return 0;
  PLIMSOLL_CHECK(contents->snapshots > 0 || !is_text_log);
  const logs::LogSummary summary = summarizer.finish("log", *contents);
  base::JsonWriter json([](std::string_view) { return true; });
  base::write_json(json, summary);
  PLIMSOLL_CHECK(json.finish());
  if (!is_text_log) return 0;
  fuzz::accept();
  const std::string rounded = rewritten(rewritten(bytes));  // rounds sizes as they are printed
  PLIMSOLL_CHECK(rewritten(rounded).substr(rounded.find("===")) ==
                 rounded.substr(rounded.find("===")));
  return 0;
}

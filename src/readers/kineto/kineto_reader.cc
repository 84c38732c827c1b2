#include "readers/kineto/kineto_reader.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include "readers/kineto/attribution.h"
#include "readers/kineto/device_events.h"
#include "readers/kineto/diagnostics.h"
#include "readers/kineto/event_parser.h"
#include "readers/kineto/recording.h"
#include "readers/kineto/window_stream.h"

namespace plimsoll::readers::kineto {
namespace {

// Numbers stay text, because times need all their digits. Nesting uses the parser's heap-allocated
// stack instead of the machine's.
constexpr unsigned kFlags = rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseIterativeFlag |
                            rapidjson::kParseTrailingCommasFlag | rapidjson::kParseNanAndInfFlag;

// Interprets a parse that did not reach the end. Memory events before a truncation or damage are
// worth showing; any other failure is an error.
Status judge(const rapidjson::ParseResult& result, const WindowStream& stream,
             const EventParser& parser, const Recording& recording,
             base::Diagnostics& diagnostics) {
  if (parser.failure()) return *parser.failure();
  const bool has_events = !recording.events.empty();
  if (stream.failure()) {
    if (stream.failure()->code != ErrorCode::kCorrupt || !has_events) return *stream.failure();
    diagnostics.add(kCutOff, 1, stream.failure()->message);
    return {};
  }
  const std::string place =
      "byte " + std::to_string(result.Offset()) + ": " + rapidjson::GetParseError_En(result.Code());
  if (stream.at_end()) {
    if (!has_events) {
      return make_error(ErrorCode::kCorrupt, "the trace is truncated (the JSON ends at " + place +
                                                 "), before its first memory event");
    }
    diagnostics.add(kCutOff, 1, place);
    return {};
  }
  if (!has_events) return make_error(ErrorCode::kCorrupt, "the JSON is broken at " + place);
  diagnostics.add(kDamagedJson, 1, place);
  return {};
}

Status read_json(ByteSource& source, ReadContext& context, Recording& recording) {
  WindowStream stream(source, context.progress);
  if (stream.at_end() && !stream.failure()) {
    return make_error(ErrorCode::kCorrupt, "the file is empty");
  }
  Recorder recorder(recording, context.diagnostics, context.limits.memory_bytes);
  EventParser parser(stream, recorder);
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(stream, parser);
  if (result.IsError() || stream.failure()) {
    return judge(result, stream, parser, recording, context.diagnostics);
  }
  if (!parser.found_events()) {
    return make_error(ErrorCode::kUnsupported,
                      "this is JSON, but not a torch.profiler trace: it has no \"traceEvents\"");
  }
  return {};
}

void describe_process(const Recording& recording, model::TraceBuilder& builder) {
  builder.program().host = recording.host;
  const std::int64_t ranks = recording.world_size.value_or(0);
  const std::int64_t rank = recording.rank.value_or(-1);
  if (ranks < 2 || rank < 0 || rank >= ranks) return;
  builder.set_rank(rank);
  builder.set_world_size(ranks);
}

void report_what_to_know(const Recording& recording, base::Diagnostics& diagnostics) {
  if (recording.events.empty()) {
    diagnostics.add(kNoMemoryEvents);
    return;
  }
  diagnostics.add(kBlockSizes);
  const auto is_python = [](const Span& span) { return span.kind == SpanKind::kPython; };
  if (std::any_of(recording.spans.begin(), recording.spans.end(), is_python)) {
    diagnostics.add(kFunctionLines);
  }
  if (recording.memory_pids > 1) diagnostics.add(kSeveralProcesses);
}

// Annotations belong to the host and apply to every device that has events.
Status add_annotations(const Recording& recording, ReadContext& context) {
  model::TraceBuilder& builder = context.builder;
  const auto is_annotation = [](const Span& span) { return span.kind == SpanKind::kAnnotation; };
  const auto count = static_cast<std::uint64_t>(
      std::count_if(recording.spans.begin(), recording.spans.end(), is_annotation));
  if (count * recording.devices.size() > context.limits.memory_bytes / sizeof(model::Annotation)) {
    return out_of_memory_limit(context.limits.memory_bytes);
  }
  for (const Span& span : recording.spans) {
    if (!is_annotation(span)) continue;
    model::Annotation annotation;
    annotation.name = builder.strings().intern(recording.names[span.name]);
    annotation.begin_ns = span.begin_ns;
    annotation.end_ns = span.end_ns;
    for (const model::Device device : recording.devices) {
      annotation.device = device;
      builder.add_annotation(annotation);
    }
  }
  return {};
}

Status add_devices(const Recording& recording, ReadContext& context) {
  Attribution attribution(recording, context.builder, context.diagnostics,
                          context.limits.memory_bytes);
  PLIMSOLL_TRY_ASSIGN(const std::vector<Place> places, attribution.run(context.progress));
  std::vector<std::vector<std::uint32_t>> rows(recording.devices.size());
  for (std::uint32_t row = 0; row < recording.events.size(); ++row) {
    rows[recording.events[row].device].push_back(row);
  }
  for (std::size_t device = 0; device < rows.size(); ++device) {
    DeviceEvents(recording, places, context.builder, context.diagnostics)
        .emit(recording.devices[device], std::move(rows[device]));
  }
  return {};
}

class KinetoReader final : public Reader {
 public:
  const char* name() const override { return "kineto"; }

  Confidence sniff(std::span<const std::byte> head) const override {
    std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    auto skip_space = [&] {
      text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    };
    auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
    skip_space();
    if (text.starts_with('{')) {
      const bool is_ours = has("\"traceEvents\"") || has("\"schemaVersion\"");
      return is_ours ? Confidence::kCertain : Confidence::kMaybe;
    }
    if (!text.starts_with('[')) return Confidence::kNo;
    text.remove_prefix(1);
    skip_space();
    if (text.starts_with('{')) return has("\"ph\"") ? Confidence::kCertain : Confidence::kMaybe;
    // A list of lists of numbers is an export_memory_timeline file; read() reports that.
    return text.empty() || text.starts_with('[') ? Confidence::kMaybe : Confidence::kNo;
  }

  Status read(ByteSource& source, ReadContext& context) const override {
    Recording recording;
    PLIMSOLL_TRY(read_json(source, context, recording));
    describe_process(recording, context.builder);
    report_what_to_know(recording, context.diagnostics);
    PLIMSOLL_TRY(add_annotations(recording, context));
    return add_devices(recording, context);
  }
};

}  // namespace

std::unique_ptr<Reader> make() { return std::make_unique<KinetoReader>(); }

}  // namespace plimsoll::readers::kineto

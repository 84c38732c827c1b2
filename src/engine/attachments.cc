#include "engine/attachments.h"

#include <new>
#include <string>
#include <utility>

#include "attribution/torch_history.h"
#include "engine/open_layers.h"
#include "model/trace_builder.h"

namespace plimsoll::engine {
namespace {

constexpr base::DiagnosticKind kUnreadable{
    "attachment_unreadable", base::Severity::kDataLoss,
    "An attachment from another tool cannot be read and is left out: torch's own allocator "
    "history, if that records CUDA.",
    base::Totals::kIncomplete};
constexpr base::DiagnosticKind kUnknownFormat{
    "attachment_of_unknown_format", base::Severity::kInfo,
    "An attachment from another tool, in a format unknown to this Plimsoll. It is left out."};

Result<model::Trace> read(const readers::Attachment& attachment, base::Diagnostics& diagnostics,
                          base::Progress& progress) {
  PLIMSOLL_TRY_ASSIGN(Opened opened, open_layers(readers::view_memory(attachment.bytes)));
  if (opened.reader->name() != attachment.format) {
    return make_error(ErrorCode::kUnsupported,
                      "it is not of its declared format: " + attachment.format);
  }
  base::Diagnostics of_events;  // reported again if the trace is replaced
  model::TraceBuilder builder(of_events);
  readers::ReadContext context{builder, diagnostics, progress,
                               readers::Limits{opened.memory_bytes}};
  PLIMSOLL_TRY(opened.reader->read(*opened.source, context));
  return builder.finish(opened.reader->name(), progress);
}

Result<model::Trace> join(const readers::Attachment& attachment, const readers::SideData& side_data,
                          const model::Trace& recorded, base::Diagnostics& diagnostics,
                          base::Progress& progress) try {
  PLIMSOLL_TRY_ASSIGN(const model::Trace history, read(attachment, diagnostics, progress));
  return attribution::join_torch_history(recorded, history, side_data.activities, diagnostics,
                                         progress);
} catch (const std::bad_alloc&) {
  return make_error(ErrorCode::kLimit, "not enough memory to read it");
}

}  // namespace

Status join_attachments(const readers::SideData& side_data, const base::Diagnostics& of_events,
                        Loaded& loaded, base::Progress& progress) {
  for (const readers::Attachment& attachment : side_data.attachments) {
    if (attachment.format != kTorchSnapshot) {
      loaded.diagnostics.add(kUnknownFormat, 1, attachment.format);
      continue;
    }
    base::Diagnostics found;
    auto joined = join(attachment, side_data, loaded.trace, found, progress);
    if (joined.ok()) {
      loaded.trace = std::move(*joined);
      loaded.diagnostics.append(found);
      return {};
    }
    if (joined.error().code == ErrorCode::kInterrupted) return std::move(joined).error();
    loaded.diagnostics.add(kUnreadable, 1, joined.error().message);
  }
  loaded.diagnostics.append(of_events);
  return {};
}

}  // namespace plimsoll::engine

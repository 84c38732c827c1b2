#include "engine/load.h"

#include <memory>
#include <new>
#include <utility>

#include "attribution/inferred_roles.h"
#include "attribution/library_workspaces.h"
#include "engine/attachments.h"
#include "engine/open_layers.h"
#include "model/trace_builder.h"

namespace plimsoll::engine {
namespace {

using readers::ByteSource;

Error about(const std::string& path, Error error) {
  error.message = path + ": " + error.message;
  return error;
}

Result<Loaded> load_unchecked(std::unique_ptr<ByteSource> source, const std::string& path,
                              base::Progress& progress) {
  Loaded loaded;
  loaded.file_bytes = source->size_hint();
  auto opened = open_layers(std::move(source));
  if (!opened) return about(path, std::move(opened).error());
  base::Diagnostics of_events;  // dropped if an attachment replaces the events
  model::TraceBuilder builder(of_events);
  readers::SideData side_data;
  readers::ReadContext context{builder, loaded.diagnostics, progress,
                               readers::Limits{opened->memory_bytes}, &side_data};
  if (Status status = opened->reader->read(*opened->source, context); !status) {
    return about(path, std::move(status).error());
  }
  auto trace = builder.finish(opened->reader->name(), progress);
  if (!trace) return about(path, std::move(trace).error());
  loaded.trace = std::move(*trace);
  if (Status status = join_attachments(side_data, of_events, loaded, progress); !status) {
    return about(path, std::move(status).error());
  }
  if (loaded.trace.format == kTorchSnapshot) attribution::infer_roles(loaded.trace);
  attribution::name_unrecorded_workspaces(loaded.trace);
  return loaded;
}

Result<Loaded> load_source(Result<std::unique_ptr<ByteSource>> source, const std::string& path,
                           base::Progress& progress) {
  if (!source) return std::move(source).error();
  try {
    return load_unchecked(std::move(*source), path, progress);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kLimit, path + ": not enough memory to read it");
  }
}

}  // namespace

Result<Loaded> load(const std::string& path, base::Progress& progress) {
  return load_source(readers::open_file(path), path, progress);
}

Result<Loaded> load(std::span<const std::byte> bytes, const std::string& name,
                    base::Progress& progress) {
  return load_source(readers::view_memory(bytes), name, progress);
}

}  // namespace plimsoll::engine

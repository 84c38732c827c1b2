#include "exporters/collapsed/collapsed_exporter.h"

#include <string>
#include <string_view>
#include <vector>

#include "exporters/collapsed/folded_lines.h"
#include "exporters/collapsed/folded_name.h"
#include "exporters/flame_frames.h"
#include "exporters/live_stacks.h"

namespace plimsoll::exporters::collapsed {
namespace {

void append_frame(std::string& line, const model::Trace& trace, const model::Frame& frame) {
  append_name(line, trace.strings[frame.function]);
  const std::string_view file = trace.strings[frame.file];
  if (file.empty()) return;
  line += " (";
  append_name(line, file);
  if (frame.line != model::kUnknownLine) line += ":" + std::to_string(frame.line);
  line += ')';
}

void append_stack(std::string& text, const ExportInput& input,
                  const std::vector<model::FrameId>& frames, model::StackId stack) {
  if (frames.empty()) {
    text += ';';
    append_name(text, input.lines.label(stack));
  }
  for (model::FrameId frame : frames) {
    text += ';';
    append_frame(text, input.trace, input.trace.stacks.frame(frame));
  }
}

class CollapsedExporter final : public Exporter {
 public:
  const char* name() const override { return "collapsed"; }
  const char* description() const override {
    return "folded stacks of the live set, for flamegraph.pl, inferno and others";
  }
  const char* suffix() const override { return ".folded"; }

  std::span<const char* const> needs() const override {
    static constexpr const char* kNames[] = {"composition"};
    return kNames;
  }
  Status write(const ExportInput& input, Output& output) const override {
    FlameFrames flame(input.trace);
    FoldedLines lines(output);
    for (const LiveStacks& live : live_stacks(input)) {
      const std::string root = model::to_string(live.device->device);
      for (const StackBytes& row : live.stacks) {
        lines.text() += root;
        append_stack(lines.text(), input, flame.root_first(row.stack), row.stack);
        PLIMSOLL_TRY(lines.end_line(row.bytes));
      }
    }
    return lines.finish();
  }
};

}  // namespace

std::unique_ptr<Exporter> make() { return std::make_unique<CollapsedExporter>(); }

}  // namespace plimsoll::exporters::collapsed

#include "exporters/collapsed/collapsed_layers_exporter.h"

#include <string>

#include "exporters/collapsed/folded_lines.h"
#include "exporters/collapsed/folded_name.h"
#include "exporters/layer_stacks.h"

namespace plimsoll::exporters::collapsed {
namespace {

class CollapsedLayersExporter final : public Exporter {
 public:
  const char* name() const override { return "collapsed-layers"; }
  const char* description() const override {
    return "the same by layer, operator and line instead of calls";
  }
  const char* suffix() const override { return ".layers.folded"; }

  std::span<const char* const> needs() const override {
    static constexpr const char* kNames[] = {"composition"};
    return kNames;
  }
  Status write(const ExportInput& input, Output& output) const override {
    FoldedLines lines(output);
    for (const LayerStacks& live : layer_stacks(input)) {
      const std::string root = model::to_string(live.device->device);
      for (const LayerStack& row : live.rows) {
        lines.text() += root;
        for (const std::string& frame : row.frames) {
          lines.text() += ';';
          append_name(lines.text(), frame);
        }
        PLIMSOLL_TRY(lines.end_line(row.bytes));
      }
    }
    return lines.finish();
  }
};

}  // namespace

std::unique_ptr<Exporter> make_layers() { return std::make_unique<CollapsedLayersExporter>(); }

}  // namespace plimsoll::exporters::collapsed

#include "exporters/collapsed/collapsed_layers_exporter.h"

#include <string>

#include "exporters/collapsed/folded_name.h"
#include "exporters/layer_stacks.h"

namespace plimsoll::exporters::collapsed {
namespace {

constexpr std::size_t kFlushBytes = 1 << 16;

class CollapsedLayersExporter final : public Exporter {
 public:
  const char* name() const override { return "collapsed-layers"; }
  const char* description() const override {
    return "the same by layer, operator and line in place of calls";
  }
  const char* suffix() const override { return ".layers.folded"; }

  Status write(const ExportInput& input, Output& output) const override {
    std::string text;
    for (const LayerStacks& live : layer_stacks(input)) {
      const std::string root = model::to_string(live.device->device);
      for (const LayerStack& row : live.rows) {
        text += root;
        for (const std::string& frame : row.frames) {
          text += ';';
          append_name(text, frame);
        }
        text += ' ';
        text += std::to_string(row.bytes);
        text += '\n';
        if (text.size() < kFlushBytes) continue;
        PLIMSOLL_TRY(output.write(text));
        text.clear();
      }
    }
    return text.empty() ? Status{} : output.write(text);
  }
};

}  // namespace

std::unique_ptr<Exporter> make_layers() { return std::make_unique<CollapsedLayersExporter>(); }

}  // namespace plimsoll::exporters::collapsed

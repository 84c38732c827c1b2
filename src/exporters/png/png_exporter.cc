#include "exporters/png/png_exporter.h"

#include "charts/plots.h"
#include "page/png.h"

namespace plimsoll::exporters::png {
namespace {

class PngExporter final : public Exporter {
 public:
  const char* name() const override { return "png"; }
  const char* description() const override {
    return "the same as pixels, for places that show no SVG";
  }
  const char* suffix() const override { return ".png"; }
  std::span<const char* const> needs() const override { return charts::timeline_needs(); }

  Status write(const ExportInput& input, Output& output) const override {
    const charts::Plot plot = charts::timeline_to_export(input.trace, input.report, input.lines);
    return output.write(page::to_png(plot.chart.drawing, page::Theme::kPrint));
  }
};

}  // namespace

std::unique_ptr<Exporter> make() { return std::make_unique<PngExporter>(); }

}  // namespace plimsoll::exporters::png

#include "exporters/svg/svg_exporter.h"

#include "charts/plots.h"
#include "page/svg.h"

namespace plimsoll::exporters::svg {
namespace {

class SvgExporter final : public Exporter {
 public:
  const char* name() const override { return "svg"; }
  const char* description() const override {
    return "memory over time as a picture for papers and READMEs; plimsoll plot draws others";
  }
  const char* suffix() const override { return ".svg"; }
  std::span<const char* const> needs() const override { return charts::timeline_needs(); }

  Status write(const ExportInput& input, Output& output) const override {
    const charts::Plot plot = charts::timeline_to_export(input.trace, input.report, input.lines);
    page::SvgOptions options;
    options.title = plot.title;
    options.description = plot.chart.description;
    return output.write(page::to_svg(plot.chart.drawing, options));
  }
};

}  // namespace

std::unique_ptr<Exporter> make() { return std::make_unique<SvgExporter>(); }

}  // namespace plimsoll::exporters::svg

#include "exporters/json/json_exporter.h"

#include "base/fields.h"
#include "exporters/json_output.h"

namespace plimsoll::exporters::json {
namespace {

class JsonExporter final : public Exporter {
 public:
  const char* name() const override { return "json"; }
  const char* description() const override { return "the whole report, for programs"; }
  const char* suffix() const override { return ".report.json"; }
  bool shows_allocations() const override { return false; }

  Status write(const ExportInput& input, Output& output) const override {
    JsonOutput out(output, base::JsonWriter::Style::kIndented);
    base::write_json(out.json(), input.report);
    return out.finish();
  }
};

}  // namespace

std::unique_ptr<Exporter> make() { return std::make_unique<JsonExporter>(); }

}  // namespace plimsoll::exporters::json

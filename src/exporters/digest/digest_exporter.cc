#include "exporters/digest/digest_exporter.h"

#include "base/fields.h"
#include "exporters/json_output.h"

namespace plimsoll::exporters::digest {
namespace {

class DigestExporter final : public Exporter {
 public:
  const char* name() const override { return "digest"; }
  const char* description() const override {
    return "what plimsoll diff compares: a small file to keep as a baseline";
  }
  const char* suffix() const override { return ".digest.json"; }
  std::span<const char* const> needs() const override {
    static constexpr const char* kNames[] = {"digest"};
    return kNames;
  }

  Status write(const ExportInput& input, Output& output) const override {
    JsonOutput out(output, base::JsonWriter::Style::kIndented);
    base::write_json(out.json(), input.report.digest);
    return out.finish();
  }
};

}  // namespace

std::unique_ptr<Exporter> make() { return std::make_unique<DigestExporter>(); }

}  // namespace plimsoll::exporters::digest

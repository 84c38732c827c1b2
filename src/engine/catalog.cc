#include "engine/catalog.h"

#include "analysis/composition/composition.h"
#include "analysis/device/device.h"
#include "analysis/digest/digest.h"
#include "analysis/fragmentation/fragmentation.h"
#include "analysis/growth/growth.h"
#include "analysis/layers/layers.h"
#include "analysis/oom/oom.h"
#include "analysis/saved/saved.h"
#include "analysis/sites/sites.h"
#include "analysis/steps/steps.h"
#include "analysis/timeline/timeline.h"
#include "analysis/uses/uses.h"
#include "exporters/collapsed/collapsed_exporter.h"
#include "exporters/collapsed/collapsed_layers_exporter.h"
#include "exporters/digest/digest_exporter.h"
#include "exporters/html/html_exporter.h"
#include "exporters/html/notebook_exporter.h"
#include "exporters/json/json_exporter.h"
#include "exporters/png/png_exporter.h"
#include "exporters/speedscope/speedscope_exporter.h"
#include "exporters/svg/svg_exporter.h"
#include "exporters/timeline_csv/timeline_csv_exporter.h"
#include "exporters/timeline_json/timeline_json_exporter.h"
#include "exporters/torch_snapshot/torch_snapshot_exporter.h"
#include "findings/findings.h"
#include "readers/kineto/kineto_reader.h"
#include "readers/native/native_reader.h"
#include "readers/oom_message/oom_message_reader.h"
#include "readers/torch_snapshot/torch_snapshot_reader.h"

namespace plimsoll::engine {
namespace {

Catalog make_catalog() {
  Catalog catalog;
  catalog.readers.push_back(readers::torch_snapshot::make());
  catalog.readers.push_back(readers::kineto::make());
  catalog.readers.push_back(readers::native::make());
  catalog.readers.push_back(readers::oom_message::make());  // text that no other reader wants

  catalog.passes.push_back(analysis::timeline::make());
  catalog.passes.push_back(analysis::composition::make());
  catalog.passes.push_back(analysis::saved::make());
  catalog.passes.push_back(analysis::uses::make());
  catalog.passes.push_back(analysis::layers::make());
  catalog.passes.push_back(analysis::steps::make());
  catalog.passes.push_back(analysis::fragmentation::make());
  catalog.passes.push_back(analysis::sites::make());
  catalog.passes.push_back(analysis::growth::make());
  catalog.passes.push_back(analysis::oom::make());
  catalog.passes.push_back(analysis::device::make());
  catalog.passes.push_back(analysis::digest::make());
  catalog.passes.push_back(findings::make());

  catalog.exporters.push_back(exporters::html::make());
  catalog.exporters.push_back(exporters::html::make_notebook());
  catalog.exporters.push_back(exporters::json::make());
  catalog.exporters.push_back(exporters::speedscope::make());
  catalog.exporters.push_back(exporters::collapsed::make());
  catalog.exporters.push_back(exporters::collapsed::make_layers());
  catalog.exporters.push_back(exporters::timeline_json::make());
  catalog.exporters.push_back(exporters::timeline_csv::make());
  catalog.exporters.push_back(exporters::torch_snapshot::make());
  catalog.exporters.push_back(exporters::digest::make());
  catalog.exporters.push_back(exporters::svg::make());
  catalog.exporters.push_back(exporters::png::make());
  return catalog;
}

}  // namespace

const exporters::Exporter* Catalog::exporter(std::string_view name) const {
  for (const auto& exporter : exporters) {
    if (exporter->name() == name) return exporter.get();
  }
  return nullptr;
}

const Catalog& catalog() {
  static const Catalog kCatalog = make_catalog();
  return kCatalog;
}

}  // namespace plimsoll::engine

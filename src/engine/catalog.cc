#include "engine/catalog.h"

#include "analysis/composition/composition.h"
#include "analysis/fragmentation/fragmentation.h"
#include "analysis/growth/growth.h"
#include "analysis/sites/sites.h"
#include "analysis/timeline/timeline.h"
#include "readers/kineto/kineto_reader.h"
#include "readers/torch_snapshot/torch_snapshot_reader.h"

namespace plimsoll::engine {
namespace {

Catalog make_catalog() {
  Catalog catalog;
  catalog.readers.push_back(readers::torch_snapshot::make());
  catalog.readers.push_back(readers::kineto::make());

  catalog.passes.push_back(analysis::timeline::make());
  catalog.passes.push_back(analysis::composition::make());
  catalog.passes.push_back(analysis::fragmentation::make());
  catalog.passes.push_back(analysis::sites::make());
  catalog.passes.push_back(analysis::growth::make());
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
  static const Catalog instance = make_catalog();
  return instance;
}

}  // namespace plimsoll::engine

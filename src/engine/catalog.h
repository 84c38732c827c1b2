// The catalogue: the only list of readers, passes and exporters. A new one needs its own folder and
// one line here.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "analysis/pass.h"
#include "exporters/exporter.h"
#include "readers/reader.h"

namespace plimsoll::engine {

struct Catalog {
  std::vector<std::unique_ptr<readers::Reader>> readers;
  std::vector<std::unique_ptr<analysis::Pass>> passes;
  std::vector<std::unique_ptr<exporters::Exporter>> exporters;

  const exporters::Exporter* exporter(std::string_view name) const;
};

const Catalog& catalog();

}  // namespace plimsoll::engine

// The whole report as one JSON object, as `plimsoll report --json` prints it. The field lists of
// report/ define its content; docs/report.schema.json describes it.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::json {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::json

// The JSON Schema of the json exporter's output, made from the field lists of report/.
// docs/report.schema.json is a copy that a test keeps equal.
#pragma once

#include "exporters/exporter.h"

namespace plimsoll::exporters::json {

Status write_report_schema(Output& output);

}  // namespace plimsoll::exporters::json

// The JSON Schema of the json exporter's output, generated from the field lists of report/. A test
// checks that docs/report.schema.json is up to date.
#pragma once

#include "exporters/exporter.h"

namespace plimsoll::exporters::json {

Status write_report_schema(Output& output);

}  // namespace plimsoll::exporters::json

// The JSON Schema of the json exporter's output, generated from the field lists of report/. A test
// keeps the copy in docs/report.schema.json equal.
#pragma once

#include "exporters/exporter.h"

namespace plimsoll::exporters::json {

Status write_report_schema(Output& output);

}  // namespace plimsoll::exporters::json

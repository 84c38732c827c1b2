#include "exporters/json/report_schema.h"

#include "base/json_schema.h"
#include "exporters/json_output.h"
#include "report/report.h"

namespace plimsoll::exporters::json {

Status write_report_schema(Output& output) {
  JsonOutput out(output, base::JsonWriter::Style::kIndented);
  base::write_json_schema<report::Report>(out.json(), "Plimsoll report");
  return out.finish();
}

}  // namespace plimsoll::exporters::json

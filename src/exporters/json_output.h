// JsonOutput: a JsonWriter that writes to an Output and stores the Output's error.
#pragma once

#include <string_view>

#include "base/json_writer.h"
#include "exporters/exporter.h"
#include "plimsoll/result.h"

namespace plimsoll::exporters {

class JsonOutput {
 public:
  JsonOutput(Output& output, base::JsonWriter::Style style);

  base::JsonWriter& json() { return json_; }
  // False after a failed write, so that loops can stop.
  bool ok() const { return json_.ok(); }
  // Ends the document with a newline; returns the output's first error, if any.
  Status finish();

 private:
  Output& output_;
  Status status_;
  base::JsonWriter json_;
};

}  // namespace plimsoll::exporters

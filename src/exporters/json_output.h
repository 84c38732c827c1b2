// JsonOutput: a JsonWriter whose text goes to an Output, and which remembers the Output's error.
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
  // False once a write failed: loops stop there.
  bool ok() const { return json_.ok(); }
  // Ends the document with a newline; the first error of the output, if there was one.
  Status finish();

 private:
  Output& output_;
  Status status_;
  base::JsonWriter json_;
};

}  // namespace plimsoll::exporters

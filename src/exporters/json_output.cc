#include "exporters/json_output.h"

#include <utility>

namespace plimsoll::exporters {

JsonOutput::JsonOutput(Output& output, base::JsonWriter::Style style)
    : output_(output),
      json_(
          [this](std::string_view text) {
            status_ = output_.write(text);
            return status_.ok();
          },
          style) {}

Status JsonOutput::finish() {
  if (!json_.finish()) return std::move(status_);
  return output_.write("\n");
}

}  // namespace plimsoll::exporters

// What the driver reported of the devices, figure by figure: whole looks go into the model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "format/records.h"
#include "model/trace_builder.h"
#include "readers/native/definitions.h"

namespace plimsoll::readers::native {

class Looks {
 public:
  Looks(model::TraceBuilder& builder, Definitions& definitions)
      : builder_(builder), definitions_(definitions) {}

  // A look whose first or last figure is missing is left out; figures of later versions are passed
  // over.
  void add(const format::DeviceFigure& figure);

 private:
  model::TraceBuilder& builder_;
  Definitions& definitions_;
  std::array<std::optional<base::DeviceFigures>, 256> begun_;  // by device
};

}  // namespace plimsoll::readers::native

// Assembles the driver's figures for a device into readings for the model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "format/records.h"
#include "model/trace_builder.h"
#include "readers/native/definitions.h"

namespace plimsoll::readers::native {

class DeviceReadings {
 public:
  DeviceReadings(model::TraceBuilder& builder, Definitions& definitions)
      : builder_(builder), definitions_(definitions) {}

  // Readings without their first or last figure are dropped; figures from later versions are
  // skipped.
  void add(const format::DeviceFigure& figure);

 private:
  model::TraceBuilder& builder_;
  Definitions& definitions_;
  std::array<std::optional<base::DeviceFigures>, 256> begun_;  // by device
};

}  // namespace plimsoll::readers::native

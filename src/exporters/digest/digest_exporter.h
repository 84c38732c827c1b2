// Writes the digest of a recording, for `plimsoll diff`: JSON, one field list (report/digest.h).
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::digest {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::digest

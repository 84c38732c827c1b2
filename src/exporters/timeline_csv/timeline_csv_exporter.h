// The running totals of all devices as one CSV table (RFC 4180: CRLF line ends, quotes doubled),
// for spreadsheets and data frames: a header, then one line per bucket, with minimum, maximum and
// last value of each series. An unknown time is an empty field.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::timeline_csv {

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::timeline_csv

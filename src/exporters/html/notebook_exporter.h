// The report as a fragment of HTML for the output of a notebook cell: verdict, chart, largest rows.
// It has no script, no style sheet and no SVG element, since viewers of notebooks remove these; the
// chart is an image. At most 60 KB.
#pragma once

#include <memory>

#include "exporters/exporter.h"

namespace plimsoll::exporters::html {

std::unique_ptr<Exporter> make_notebook();

}  // namespace plimsoll::exporters::html

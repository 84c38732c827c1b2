// The report as one HTML page: complete without scripts, and without anything from the network.
// docs/pictures.md shows it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comparison/ranks.h"
#include "exporters/exporter.h"
#include "exporters/html/sections.h"

namespace plimsoll::exporters::html {

inline constexpr const char* kGenerator = "<meta name=\"generator\" content=\"Plimsoll ";

std::string to_page(const ExportInput& input);

// Of several recordings: a row for each, and the page of one of them, `shown`. `comparison` is null
// unless they are the ranks of one run.
std::string to_page_of_several(const comparison::RankComparison* comparison,
                               const std::vector<report::Report>& reports,
                               const ExportInput& shown);

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::html

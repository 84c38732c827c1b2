// The report as one HTML page that is complete without scripts and loads nothing from the network.
// docs/pictures.md shows it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comparison/ranks.h"
#include "exporters/exporter.h"
#include "exporters/html/comparison_section.h"
#include "exporters/html/sections.h"

namespace plimsoll::exporters::html {

inline constexpr const char* kGenerator = "<meta name=\"generator\" content=\"Plimsoll ";

std::string to_page(const ExportInput& input);

struct SeveralRecordings {
  // The ranks of one run and their comparison; none if the recordings are not ranks.
  std::vector<report::Report> ranks;
  std::optional<comparison::RankComparison> comparison = {};  // refers to `ranks`
  std::vector<report::Report> others;
  std::vector<std::string> unreadable;  // messages about files that could not be read
};

// A page with a row for each recording and the full report of one of them, `shown`.
std::string to_page_of_several(const SeveralRecordings& several, const ExportInput& shown);

// Returns a page with the comparison, followed by the full report of the later recording.
std::string to_page_against(const ComparedWith& compared, const ExportInput& after);

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::html

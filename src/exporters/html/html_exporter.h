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

struct PageOptions {
  std::string device;              // only this one, as in Question::device; empty: all
  SourceOf source_of = nullptr;    // null: lines are shown without their text
};

std::string to_page(const ExportInput& input, const PageOptions& options);

// Of the ranks of one run: their comparison, then the page of the rank to read first. `input` is
// that rank's.
std::string to_page_of_ranks(const comparison::RankComparison& comparison,
                             const std::vector<report::Report>& reports, const ExportInput& input,
                             const PageOptions& options);

std::unique_ptr<Exporter> make();

}  // namespace plimsoll::exporters::html

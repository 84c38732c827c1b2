#include "exporters/html/html_exporter.h"

#include <gtest/gtest.h>

#include "tests/conformance/exporter_suite.h"

namespace plimsoll::tests {
namespace {

// Returns why the page is incomplete or refers to something outside itself; empty if it does not.
std::string page_flaw(std::string_view text) {
  if (!text.starts_with("<!doctype html>\n<html lang=\"en\">")) return "does not begin as a page";
  if (!text.ends_with("</body></html>\n")) return "does not end as a page";
  for (const char* const outside : {"http://", "https://", "src=", "@import", "url("}) {
    if (text.find(outside) != std::string_view::npos) return std::string("has ") + outside;
  }
  return {};
}

INSTANTIATE_TEST_SUITE_P(Html, ExporterSuite,
                         testing::Values(ExporterCase{exporters::html::make, page_flaw}));

}  // namespace
}  // namespace plimsoll::tests

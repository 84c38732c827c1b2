#include "exporters/html/html_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/conformance/exporter_suite.h"

namespace plimsoll::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns why the page is incomplete or refers to something outside itself; empty if it does not.
std::string page_flaw(std::string_view text) {
  if (!text.starts_with("<!doctype html>\n<html lang=\"en\">")) return "does not begin as a page";
  if (!text.ends_with("</body></html>\n")) return "does not end as a page";
  for (const char* const outside : {"http://", "https://", "src=", "@import", "url("}) {
    if (text.find(outside) != std::string_view::npos) return std::string("has ") + outside;
  }
  return {};
}

// The page at the end of two allocations, of which no operator uses the first again.
std::string page_with(const model::LastUse& first) {
  TraceMaker maker;
  maker.alloc_reported(0x1000, 100, {.category = "activation", .use = first})
      .alloc_reported(0x2000, 200, {.category = "activation"});
  return exported(*exporters::html::make(), maker.finish());
}

TEST(HtmlExporter, the_selected_point_states_what_is_not_used_again) {
  const std::string page = page_with({.unused_from = 1});
  EXPECT_THAT(page, HasSubstr("<span data-unused=\"100\">100 B not used again</span>"));
  EXPECT_THAT(page, HasSubstr("url(#t0wide-background-falling)"));
}

TEST(HtmlExporter, without_uses_the_page_states_nothing_about_them) {
  const std::string page = page_with({});
  EXPECT_THAT(page, Not(HasSubstr("<span data-unused")));
  EXPECT_THAT(page, Not(HasSubstr("falling")));
}

INSTANTIATE_TEST_SUITE_P(Html, ExporterSuite,
                         testing::Values(ExporterCase{exporters::html::make, page_flaw}));

}  // namespace
}  // namespace plimsoll::tests

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

report::HolderRow holder_row(std::uint64_t depth, const std::string& name, std::uint64_t bytes) {
  report::HolderRow row;
  row.device = -1;
  row.depth = depth;
  row.name = name;
  row.bytes = bytes;
  row.count = bytes / 100;
  return row;
}

TEST(HtmlExporter, shows_what_holds_the_memory_and_escapes_its_names) {
  TraceMaker maker;
  maker.on(model::Device{model::DeviceType::kCpu, -1});
  for (std::uint64_t i = 0; i < 10; ++i) maker.alloc(1 + i, 100);
  const model::Trace trace = maker.finish();
  report::Report report = report_at_end(trace);
  report.tables.points[0].live_bytes = 1000;
  report.tables.points[0].live_count = 10;
  report::HolderRow list = holder_row(1, "history", 500);
  list.type = "list";
  list.length = 5;
  list.is_cut = true;
  list.freed_bytes = 300;
  list.left_bytes = 200;
  list.other = "<i>cache";
  report.tables.holders = {holder_row(0, "module __main__", 900), list,
                           holder_row(1, "['</script><b>']", 300),
                           holder_row(1, std::string(400, 'x'), 100)};
  const std::string page = exported(*exporters::html::make(), trace, report);
  EXPECT_EQ(page_flaw(page), "");
  EXPECT_THAT(page, HasSubstr("What holds the memory"));
  EXPECT_THAT(page, HasSubstr("data-holder=\"module __main__\" data-bytes=\"900\""));
  EXPECT_THAT(page, HasSubstr("list of 5"));
  EXPECT_THAT(page, HasSubstr("free without it: 300 B; also held by &lt;i&gt;cache: 200 B"));
  EXPECT_THAT(page, HasSubstr("data-holder=\"[&#39;&lt;/script&gt;&lt;b&gt;&#39;]\""));
  EXPECT_THAT(page, HasSubstr("data-holder=\"[no reference to it was found]\" data-bytes=\"100\""));
  for (const std::string& raw : {std::string("<b>"), std::string("<i>"), std::string(400, 'x')}) {
    EXPECT_THAT(page, Not(HasSubstr(raw + "&#39;"))) << raw;
    EXPECT_THAT(page, Not(HasSubstr("'" + raw))) << raw;
    EXPECT_THAT(page, Not(HasSubstr(raw + "cache"))) << raw;
  }
  EXPECT_THAT(page, Not(HasSubstr(std::string(400, 'x'))));
}

TEST(HtmlExporter, without_a_walk_the_page_says_nothing_about_holders) {
  EXPECT_THAT(page_with({}), Not(HasSubstr("What holds")));
}

INSTANTIATE_TEST_SUITE_P(Html, ExporterSuite,
                         testing::Values(ExporterCase{exporters::html::make, page_flaw}));

}  // namespace
}  // namespace plimsoll::tests

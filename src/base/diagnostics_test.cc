#include "base/diagnostics.h"

#include <gtest/gtest.h>

namespace plimsoll::base {
namespace {

constexpr DiagnosticKind kLate{"late", Severity::kInfo, "It came late."};
constexpr DiagnosticKind kLost{"lost", Severity::kDataLoss, "It never came."};

TEST(Diagnostics, count_by_kind_and_keep_the_first_example) {
  Diagnostics diagnostics;
  diagnostics.add(kLost, 2, "event 5");
  diagnostics.add(kLate);
  diagnostics.add(kLost, 3, "event 9");
  EXPECT_EQ(diagnostics.count(kLost), 5u);
  EXPECT_EQ(diagnostics.count(kLate), 1u);
  ASSERT_EQ(diagnostics.all().size(), 2u);
  EXPECT_EQ(diagnostics.all()[0].kind, &kLost);
  EXPECT_EQ(diagnostics.all()[0].first_example, "event 5");
}

TEST(Diagnostics, kinds_without_occurrences_are_not_shown) {
  Diagnostics diagnostics;
  diagnostics.add(kLate, 0, "nowhere");
  EXPECT_TRUE(diagnostics.all().empty());
  EXPECT_EQ(diagnostics.count(kLate), 0u);
}

TEST(Diagnostics, severities_have_names) {
  EXPECT_STREQ(to_string(Severity::kInfo), "info");
  EXPECT_STREQ(to_string(Severity::kDataLoss), "data_loss");
  EXPECT_STREQ(to_string(Severity::kError), "error");
}

}  // namespace
}  // namespace plimsoll::base

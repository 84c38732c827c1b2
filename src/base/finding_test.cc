#include "base/finding.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/json_writer.h"

namespace plimsoll {
namespace {

std::string json_of(const Finding& finding) {
  std::string text;
  base::JsonWriter json([&](std::string_view piece) { return text += piece, true; });
  base::write_json(json, finding);
  json.finish();
  return text;
}

TEST(Finding, a_step_states_its_own_saving) {
  EXPECT_EQ(step_text({"Free it.", 1 << 20}), "Free it. Saves 1.0 MiB.");
  EXPECT_EQ(step_text(step_up_to("Free it.", 1 << 20)), "Free it. Saves up to 1.0 MiB.");
  EXPECT_EQ(step_text(step_up_to("Free it.", 0)), "Free it.");
}

TEST(Finding, the_first_step_is_the_next_step) {
  Finding finding;
  EXPECT_EQ(finding.next_step(), "");
  EXPECT_EQ(finding.saving_bytes(), 0u);
  finding.steps = {step_up_to("First.", 7), {"Second.", 9}};
  EXPECT_EQ(finding.next_step(), "First.");
  EXPECT_EQ(finding.saving_bytes(), 7u);
  EXPECT_NE(json_of(finding).find(R"("next_step":"First.","saving_bytes":7,"steps":[)"
                                  R"({"text":"First.","saving_bytes":7,"is_upper_bound":true},)"
                                  R"({"text":"Second.","saving_bytes":9,"is_upper_bound":false}])"),
            std::string::npos)
      << json_of(finding);
}

}  // namespace
}  // namespace plimsoll

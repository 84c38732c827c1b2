#include "findings/kept/held_by.h"

#include <gtest/gtest.h>

#include "tests/support/holder_case.h"

namespace plimsoll::findings {
namespace {

// What a finding advises about memory in a cycle of garbage.
report::Finding held_by_cycle(plimsoll_link_kind kind, EditGoes edit) {
  tests::HolderCase c;
  const auto cycle = c.link(0, PLIMSOLL_LINK_CYCLE, {}, "Session");
  c.hold(c.link(cycle, kind, "weight", "Parameter"), 3);
  c.finish();
  report::Report report;
  report.devices.resize(1);
  const model::UserLines lines(c.trace);
  const Options options;
  const Facts facts{c.trace, lines, report, options, allocator_conf(c.trace)};
  report::Finding finding;
  finding.steps = {{"Make the model once.", 100}};
  name_holder(facts, {c.trace.devices.at(0), report.devices[0], "cpu"}, c.lifetimes(), edit,
              finding);
  return finding;
}

TEST(NameHolder, a_cycle_without_a_model_gets_its_own_edit) {
  constexpr auto kInPlace = EditGoes::kInPlaceOfTheFirst;
  const report::Finding of_object = held_by_cycle(PLIMSOLL_LINK_ATTRIBUTE, kInPlace);
  ASSERT_EQ(of_object.steps.size(), 1u);
  EXPECT_TRUE(of_object.steps[0].text.starts_with("Break the cycle"));
  const report::Finding of_model = held_by_cycle(PLIMSOLL_LINK_PART, kInPlace);
  EXPECT_EQ(of_model.steps.at(0).text, "Make the model once.");
  const report::Finding of_garbage =
      held_by_cycle(PLIMSOLL_LINK_ATTRIBUTE, EditGoes::kBeforeTheSteps);
  EXPECT_EQ(of_garbage.steps.at(0).text, "Make the model once.") << "the rule knows the cycle";
}

}  // namespace
}  // namespace plimsoll::findings

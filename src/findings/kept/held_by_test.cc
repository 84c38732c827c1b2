#include "findings/kept/held_by.h"

#include <gtest/gtest.h>

#include "tests/support/holder_case.h"

namespace plimsoll::findings {
namespace {

// What a finding advises about its memory, of which the first step saves 100 bytes.
report::Finding named(tests::HolderCase& c, EditGoes edit) {
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

report::Finding held_by_cycle(plimsoll_link_kind kind, EditGoes edit) {
  tests::HolderCase c;
  const auto cycle = c.link(0, PLIMSOLL_LINK_CYCLE, {}, "Session");
  c.hold(c.link(cycle, kind, "weight", "Parameter"), 3);
  return named(c, edit);
}

// The list is all that refers to 900 bytes.
TEST(NameHolder, an_edit_that_clears_gradients_does_not_save_the_tensors) {
  for (const bool is_of_gradient : {false, true}) {
    tests::HolderCase c;
    const auto images = c.link(c.root(PLIMSOLL_LINK_MODULE, "train"), PLIMSOLL_LINK_ATTRIBUTE,
                               "images", "list", {}, 0, 3);
    c.cut({images, 0, 6, 900, 0, 0, false});
    const auto item = c.link(images, PLIMSOLL_LINK_ITEM, {}, "Tensor");
    c.hold(is_of_gradient ? c.link(item, PLIMSOLL_LINK_GRADIENT, {}, "Tensor") : item, 3);
    const report::Finding finding = named(c, EditGoes::kInPlaceOfTheFirst);
    ASSERT_EQ(finding.steps.size(), 1u);
    EXPECT_EQ(finding.steps[0].text.starts_with("Set the .grad"), is_of_gradient);
    EXPECT_EQ(finding.steps[0].saving_bytes, is_of_gradient ? 100u : 900u);
  }
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

#include "analysis/growth/queue.h"

#include <vector>

#include <gtest/gtest.h>

namespace plimsoll::analysis::growth {
namespace {

Survivor survivor(std::uint32_t first, std::uint32_t beyond) {
  return {0, 0, first, beyond, 100, false, false};
}

// A producer that adds one tensor of 100 bytes at every step, and a consumer that takes one every
// `every` steps; from step `until` on, the consumer keeps up.
std::vector<Survivor> queue(std::uint32_t steps, std::uint32_t every, std::uint32_t until) {
  std::vector<Survivor> made;
  std::size_t next = 0;
  for (std::uint32_t step = 0; step < steps; ++step) {
    made.push_back(survivor(step, steps));
    if (step % every == 0 || step >= until) made[next++].beyond = step + 1;
  }
  std::erase_if(made, [](const Survivor& each) { return each.first == each.beyond; });
  return made;
}

TEST(GrowthOfQueue, a_producer_that_is_faster_than_its_consumer_grows) {
  const auto growth = growth_of_queue(queue(40, 2, 40), 40);
  ASSERT_TRUE(growth);
  EXPECT_NEAR(growth->bytes_per_step, 50, 3);
  EXPECT_TRUE(growth->is_certain);
}

TEST(GrowthOfQueue, a_full_queue_or_one_whose_consumer_keeps_up_does_not_grow) {
  EXPECT_FALSE(growth_of_queue(queue(40, 1, 40), 40));
  EXPECT_FALSE(growth_of_queue(queue(40, 2, 20), 40));
}

TEST(GrowthOfQueue, longer_lists_replaced_at_every_step_do_not_grow) {
  std::vector<Survivor> made;
  for (std::uint32_t step = 0; step < 40; ++step) {
    for (std::uint32_t i = 0; i <= step; ++i) {
      made.push_back(survivor(step, step + 1));
    }
  }
  EXPECT_FALSE(growth_of_queue(made, 40));
}

}  // namespace
}  // namespace plimsoll::analysis::growth

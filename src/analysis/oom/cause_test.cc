#include "analysis/oom/cause.h"

#include <gtest/gtest.h>

#include "tests/support/units.h"

namespace plimsoll::analysis::oom {
namespace {

using tests::kGib;

// A full, well-packed device of 24 GiB: 20 GiB live, a request of 4 GiB.
OomFacts too_big() {
  OomFacts facts;
  facts.requested_bytes = 4 * kGib;
  facts.device_free_bytes = 2 * kGib;
  facts.reserved_bytes = 21 * kGib;
  facts.live_bytes = 20 * kGib;
  facts.reachable_free_bytes = kGib;
  facts.largest_usable_bytes = kGib / 2;
  facts.stranded_bytes = kGib;
  return facts;
}

// Another six GiB are free, but in pieces.
OomFacts fragmented() {
  OomFacts facts = too_big();
  facts.live_bytes = 14 * kGib;
  facts.reachable_free_bytes = 7 * kGib;
  facts.stranded_bytes = 7 * kGib;
  return facts;
}

TEST(Cause, needed_live_memory_is_too_big) { EXPECT_EQ(cause_of(too_big()), "too_big"); }

TEST(Cause, free_pieces_that_suffice_in_total_are_fragmentation) {
  EXPECT_EQ(cause_of(fragmented()), "fragmentation");
}

TEST(Cause, free_pieces_that_do_not_suffice_in_total_are_not) {
  OomFacts facts = fragmented();
  facts.requested_bytes = 10 * kGib;
  EXPECT_EQ(cause_of(facts), "too_big");
}

TEST(Cause, a_few_decisive_stranded_bytes_are_not_fragmentation) {
  OomFacts facts = too_big();
  facts.device_free_bytes = 3 * kGib + kGib / 2;
  EXPECT_EQ(cause_of(facts), "too_big");
}

TEST(Cause, a_gap_that_fits_is_not_fragmentation) {
  OomFacts facts = fragmented();
  facts.largest_usable_bytes = 5 * kGib;
  EXPECT_EQ(cause_of(facts), "too_big");
}

TEST(Cause, growth_of_a_quarter_of_live_memory_is_the_cause) {
  OomFacts facts = too_big();
  facts.grown_bytes = 5 * kGib;
  EXPECT_EQ(cause_of(facts), "steady_growth");
  facts.grown_bytes -= 1;
  EXPECT_EQ(cause_of(facts), "too_big");
}

TEST(Cause, the_larger_of_growth_and_stranding_decides) {
  OomFacts facts = fragmented();
  facts.grown_bytes = 4 * kGib;
  EXPECT_EQ(cause_of(facts), "fragmentation");
  facts.grown_bytes = 8 * kGib;
  EXPECT_EQ(cause_of(facts), "steady_growth");
}

TEST(Cause, a_request_larger_than_live_memory_is_one_large_request) {
  OomFacts facts = too_big();
  facts.requested_bytes = 96 * kGib;
  EXPECT_EQ(cause_of(facts), "one_large_request");
  facts.requested_bytes = facts.live_bytes / 2;
  EXPECT_EQ(cause_of(facts), "too_big");
  facts.requested_bytes = (facts.reserved_bytes + facts.device_free_bytes) / 2 + 1;
  EXPECT_EQ(cause_of(facts), "one_large_request");
}

TEST(Cause, a_large_request_that_fails_because_of_growth_is_growth) {
  OomFacts facts = too_big();
  facts.requested_bytes = 13 * kGib;
  facts.grown_bytes = 12 * kGib;
  EXPECT_EQ(cause_of(facts), "steady_growth");
}

TEST(Cause, fragmentation_needs_a_step_that_would_have_fitted) {
  OomFacts facts = fragmented();
  EXPECT_EQ(available_bytes(facts), 23 * kGib);
  facts.needed_bytes = safe_bytes(23 * kGib);
  EXPECT_EQ(cause_of(facts), "fragmentation");
  facts.needed_bytes += 1;
  EXPECT_EQ(cause_of(facts), "too_big");
}

// A Llama on a device of 79.2 GiB: 71.1 GiB live, 4.7 GiB in pieces, 2.6 GiB at the driver, 3.9 GiB
// requested.
TEST(Cause, a_full_device_with_a_few_pieces_is_not_fragmented) {
  OomFacts facts;
  facts.requested_bytes = 4'194'304'000;
  facts.device_free_bytes = 2'787'311'616;
  facts.reserved_bytes = 81'426'120'704;
  facts.live_bytes = 76'341'999'108;
  facts.reachable_free_bytes = facts.stranded_bytes = 5'081'899'008;
  facts.largest_usable_bytes = kGib / 4;
  EXPECT_EQ(cause_of(facts), "too_big");
}

TEST(Cause, idle_memory_of_other_pools_is_not_available) {
  OomFacts facts = fragmented();
  facts.unreachable_free_bytes = 3 * kGib;
  EXPECT_EQ(available_bytes(facts), 20 * kGib);
}

TEST(Cause, a_recorded_limit_bounds_what_is_available) {
  OomFacts facts = too_big();
  facts.device_free_bytes = 50 * kGib;
  EXPECT_EQ(available_bytes(facts), facts.reserved_bytes) << "an unknown limit";
  facts.limit_bytes = 30 * kGib;
  EXPECT_EQ(available_bytes(facts), 30 * kGib);
}

TEST(Cause, sufficient_driver_memory_does_not_count) {
  OomFacts facts = too_big();
  EXPECT_FALSE(is_limited(facts));
  facts.device_free_bytes = 50 * kGib;
  EXPECT_TRUE(is_limited(facts));
  facts.largest_usable_bytes = 0;
  facts.stranded_bytes = facts.reachable_free_bytes = 3 * kGib;
  EXPECT_EQ(cause_of(facts), "too_big") << "3 GiB of segments do not make 4 GiB";
  facts.is_cpu = true;
  EXPECT_EQ(cause_of(facts), "process_limit");
  facts.grown_bytes = facts.live_bytes;
  EXPECT_EQ(cause_of(facts), "steady_growth") << "the limit was enough before";
}

TEST(Cause, a_reported_limit_of_the_cpu_is_the_cause_if_lifting_it_would_help) {
  OomFacts facts = too_big();
  facts.is_cpu = true;
  facts.device_free_bytes = facts.requested_bytes + 1;
  EXPECT_EQ(cause_of(facts), "too_big") << "the driver may keep so little for itself";
  facts.limit_bytes = facts.reserved_bytes + facts.requested_bytes;
  EXPECT_EQ(cause_of(facts), "too_big") << "within the limit";
  facts.limit_bytes -= 1;
  EXPECT_EQ(cause_of(facts), "process_limit");
  facts.device_free_bytes = facts.requested_bytes - 1;
  EXPECT_EQ(cause_of(facts), "too_big") << "the device is full all the same";
}

TEST(Cause, unknown_segments_are_never_fragmentation) {
  OomFacts facts;
  facts.requested_bytes = kGib;
  facts.live_bytes = 20 * kGib;
  facts.reserved_bytes = 22 * kGib;
  EXPECT_EQ(cause_of(facts), "too_big");
}

}  // namespace
}  // namespace plimsoll::analysis::oom

#include "analysis/uses/sentence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/units.h"

namespace plimsoll::analysis::uses {
namespace {

using report::LastUse;
using report::UnusedKind;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using tests::kGib;
using tests::kMib;

const LastUse kFound{
    .live_bytes = 30 * kGib, .unused_bytes = 4 * kGib, .reachable_peak_bytes = 27 * kGib};

TEST(Sentence, states_what_is_not_used_again_and_the_peak_without_it) {
  LastUse found = kFound;
  EXPECT_EQ(sentence(found),
            "At the peak, no operator uses 4.0 of 30.0 GiB again; freeing all memory when it was "
            "last used would lower the peak to 27.0 GiB.");
  found.unused_bytes = 5 * kMib;
  EXPECT_THAT(sentence(found), HasSubstr("no operator uses 5.0 MiB of 30.0 GiB again"));
}

TEST(Sentence, names_the_largest_parts) {
  LastUse found = kFound;
  found.rows = {{.line = "a.py:1 (f)", .bytes = 2 * kGib},
                {.line = "b.py:2 (g)", .kind = UnusedKind::kGradients, .bytes = kGib},
                {.line = "a.py:3 (f)", .bytes = kGib / 2},
                {.line = "b.py:3 (g)", .kind = UnusedKind::kGradients, .bytes = kGib / 2}};
  EXPECT_THAT(sentence(found),
              EndsWith("to 27.0 GiB. Largest: 2.0 GiB of a.py:1 (f), 1.5 GiB of gradients."));
  found.rows.pop_back();
  found.rows.push_back({.line = "a.py:1 (f)", .kind = UnusedKind::kKept, .bytes = kGib});
  EXPECT_THAT(sentence(found), EndsWith("Largest: 3.0 GiB of a.py:1 (f), 1.0 GiB of gradients."));
  found.rows.pop_back();
  found.rows[1].bytes = kGib / 8;
  found.rows[2].bytes = kGib / 10;
  EXPECT_THAT(sentence(found), EndsWith("27.0 GiB. Largest: 2.0 GiB of a.py:1 (f)."));
}

TEST(Sentence, a_peak_that_stays_is_stated) {
  LastUse found = kFound;
  found.reachable_peak_bytes = 30 * kGib;
  EXPECT_EQ(
      sentence(found),
      "At the peak, no operator uses 4.0 of 30.0 GiB again, but freeing all memory when it was "
      "last used would not lower the peak.");
}

TEST(Sentence, unknown_memory_is_never_called_used) {
  LastUse found = kFound;
  found.unused_bytes = 0;
  EXPECT_EQ(sentence(found), "Every byte at the peak is used again.");
  found.unused_bytes = kMib / 2;
  EXPECT_EQ(sentence(found), "All but 512.0 KiB at the peak is used again.");
  found.unknown_bytes = kMib / 2;
  EXPECT_EQ(sentence(found), "All but 1.0 MiB at the peak is known to be used again.");
  found.unknown_bytes = 2 * kGib;
  EXPECT_EQ(sentence(found),
            "It is unknown whether operators use 2.0 of 30.0 GiB again; they use all the rest "
            "again.");
  found.unused_bytes = 4 * kGib;
  EXPECT_EQ(sentence(found),
            "At the peak, no operator uses 4.0 of 30.0 GiB again; freeing all memory when it was "
            "last used would lower the peak to 27.0 GiB; it is unknown whether operators use 2.0 "
            "of 30.0 GiB again.");
}

TEST(Sentence, what_unobserved_steps_may_use_is_unknown) {
  LastUse found = kFound;
  found.is_sampled = true;
  EXPECT_THAT(sentence(found), StartsWith("At the peak, no operator uses 4.0 of 30.0 GiB again;"));
  found.unknown_bytes = 2 * kGib;
  EXPECT_THAT(sentence(found),
              EndsWith("; uses were observed only in some steps, and it is unknown whether "
                       "operators use 2.0 of 30.0 GiB again."));
  found.unused_bytes = 0;
  EXPECT_EQ(sentence(found),
            "Uses were observed only in some steps, and it is unknown whether operators use 2.0 of "
            "30.0 GiB again; they use all the rest again.");
}

TEST(Sentence, memory_that_is_live_at_the_end_is_unused_only_until_then) {
  EXPECT_THAT(sentence(kFound, 2 * kGib - 1), HasSubstr("4.0 of 30.0 GiB again; freeing"));
  EXPECT_EQ(sentence(kFound, 2 * kGib),
            "At the peak, no operator uses 4.0 of 30.0 GiB again before the recording ends; "
            "freeing all memory when it was last used would lower the peak to 27.0 GiB.");
}

}  // namespace
}  // namespace plimsoll::analysis::uses

#include "model/sites.h"

#include <gtest/gtest.h>

#include <unordered_map>

namespace plimsoll::model {
namespace {

Site site_of(std::uint32_t number) {
  Site site;
  site.stack = StackId{number % 1000};
  site.layer = StringId{number / 1000};
  site.phase = number % 2 == 0 ? Phase::kForward : Phase::kBackward;
  site.autograd = number % 3 == 0 ? Autograd::kOff : Autograd::kUnknown;
  return site;
}

TEST(SiteTable, site_0_is_unknown) {
  SiteTable sites;
  EXPECT_EQ(sites.intern(Site{}), SiteId{});
  EXPECT_EQ(sites.size(), 1u);
  EXPECT_FALSE(sites.states(&Site::stack));
}

TEST(SiteTable, stores_each_distinct_site_once) {
  SiteTable sites;
  std::unordered_map<std::uint32_t, SiteId> ids;
  for (std::uint32_t number = 0; number < 5000; ++number)
    ids[number] = sites.intern(site_of(number));
  EXPECT_EQ(sites.size(), 5001u);
  for (const auto& [number, id] : ids) {
    EXPECT_EQ(sites.intern(site_of(number)), id);
    EXPECT_EQ(sites[id], site_of(number));
  }
  EXPECT_EQ(sites.size(), 5001u);
}

TEST(SiteTable, sites_that_differ_only_in_autograd_are_distinct) {
  SiteTable sites;
  Site off, built;
  off.autograd = Autograd::kOff;
  EXPECT_FALSE(sites.states(&Site::autograd));
  built.autograd = Autograd::kBuilt;
  EXPECT_NE(sites.intern(off), sites.intern(built));
  EXPECT_TRUE(sites.states(&Site::autograd));
}

// A file can have very many sites. With equal hashes, interning them would take quadratic time.
TEST(SiteTable, stores_hundreds_of_thousands_of_sites) {
  SiteTable sites;
  constexpr std::uint32_t kCount = 300'000;
  for (const int round : {1, 2}) {
    SCOPED_TRACE(round);
    for (std::uint32_t i = 1; i <= kCount; ++i) {
      Site on_stack, in_layer, on_stream;
      on_stack.stack = StackId{i};
      in_layer.layer = StringId{i};
      on_stream.stream = StreamId{i};
      ASSERT_EQ(sites.intern(on_stack).index(), 3 * i - 2);
      ASSERT_EQ(sites.intern(in_layer).index(), 3 * i - 1);
      ASSERT_EQ(sites.intern(on_stream).index(), 3 * i);
    }
  }
}

// A change of any field makes another site.
TEST(SiteTable, distinguishes_sites_by_every_field) {
  SiteTable sites;
  Site site;
  site.stack = StackId{1}, sites.intern(site);
  site.stream = StreamId{1}, sites.intern(site);
  site.pool = PoolId{1}, sites.intern(site);
  site.category = StringId{1}, sites.intern(site);
  site.op = StringId{1}, sites.intern(site);
  site.inner_op = StringId{1}, sites.intern(site);
  site.forward_op = StringId{1}, sites.intern(site);
  EXPECT_FALSE(sites.states(&Site::layer));
  site.layer = StringId{1}, sites.intern(site);
  site.compile_context = StringId{1}, sites.intern(site);
  EXPECT_FALSE(sites.states(&Site::phase));
  site.phase = Phase::kData, sites.intern(site);
  EXPECT_EQ(sites.size(), 11u);
  EXPECT_TRUE(sites.states(&Site::layer));
  EXPECT_TRUE(sites.states(&Site::phase));
  sites.intern(Site{});
  EXPECT_TRUE(sites.states(&Site::layer)) << "a site without one takes nothing back";
}

}  // namespace
}  // namespace plimsoll::model

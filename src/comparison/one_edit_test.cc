// One edit of a program is few causes, however many lines it changes.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comparison/diff.h"

namespace plimsoll::comparison {
namespace {

using report::Digest;
using testing::ElementsAre;

struct Live {
  std::string layer;
  std::int64_t bytes = 0;
  std::uint64_t count = 1;
  std::int64_t most_bytes = 0;  // at any time
  std::string category = "activation";
  std::string text = "x = f(y)";
};

Digest live_in(const std::string& layer, const std::vector<Live>& rows) {
  Digest digest;
  digest.points.push_back({.device = "cpu", .name = "peak", .phase = "backward", .layer = layer});
  for (const Live& live : rows) {
    report::DigestKey key;
    key.device = "cpu";
    key.category = live.category;
    key.layer = live.layer;
    key.function = "Net.forward";
    key.text = live.text;
    key.most_bytes = std::max(live.most_bytes, live.bytes);
    digest.keys.push_back(key);
    if (live.bytes == 0) continue;
    digest.points[0].bytes += live.bytes;
    digest.rows.push_back({.key = digest.keys.size() - 1,
                           .bytes = live.bytes,
                           .count = live.count,
                           .largest_bytes = static_cast<std::uint64_t>(live.bytes) / live.count,
                           .instance_bytes = live.bytes});
  }
  return digest;
}

std::vector<std::string> explained(const Digest& before, const Digest& after) {
  std::vector<std::string> texts;
  const Diff diff = compare(before, after);
  for (const DiffCause& cause : diff.points[0].causes) {
    texts.push_back(std::to_string(cause.difference_bytes) + " B: " + cause.title);
  }
  return texts;
}

TEST(OneEdit, several_passes_of_forward_are_one_cause) {
  const auto passes = [](std::uint64_t count) {
    const auto times = static_cast<std::int64_t>(count);
    return live_in("Net.c", {{"Net.a", 100 * times, count},
                             {"Net.b", 400 * times, 2 * count},
                             {"Net.c", 300 * times, count}});
  };
  EXPECT_THAT(explained(passes(1), passes(3)),
              ElementsAre("1600 B: activation × 3, of unchanged sizes"));
}

TEST(OneEdit, a_larger_batch_whose_peak_is_at_another_moment_is_two_causes) {
  const Digest before = live_in("Net.a", {{"Net.a", 4000, 1},
                                          {"Net.b", 8000, 1},
                                          {"Net.a", 500, 1, 500, "temporary"},
                                          {"Net.b", 0, 1, 600, "temporary"}});
  const Digest after = live_in("Net.b", {{"Net.a", 6000, 1},
                                         {"Net.b", 12000, 1},
                                         {"Net.a", 0, 1, 750, "temporary"},
                                         {"Net.b", 900, 1, 900, "temporary"}});
  EXPECT_THAT(explained(before, after),
              ElementsAre("6000 B: activations and what is computed from them × 1.5",
                          "400 B: the peak moved from backward of Net.a to backward of Net.b"));
}

TEST(OneEdit, memory_of_another_moment_is_the_same_on_an_edited_line) {
  const auto peak_in = [](const std::string& layer, const std::string& text, std::int64_t kept) {
    const auto bytes = [&](const std::string& each) { return each == layer ? 500 : 0; };
    return live_in(layer, {{"Net", kept, 1, kept, "parameter"},
                           {"Net.a", bytes("Net.a"), 1, 500, "temporary", text},
                           {"Net.b", bytes("Net.b"), 1, 500, "temporary", text}});
  };
  EXPECT_THAT(explained(peak_in("Net.a", "self.a(x)", 4000), peak_in("Net.b", "self.c(x)", 6000)),
              ElementsAre("2000 B: size of Net"));
}

}  // namespace
}  // namespace plimsoll::comparison

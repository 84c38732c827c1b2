// The same facts about an allocation give the same category, wherever they come from: a recording,
// torch's history joined to one, or live memory.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "attribution/torch_history.h"
#include "base/categories.h"
#include "plimsoll/recorder_c.h"
#include "readers/native/native_reader.h"
#include "sample/live_rows.h"
#include "tests/support/trace_file.h"
#include "tests/support/trace_maker.h"

namespace plimsoll {
namespace {

using base::CategoryFacts;
using base::Phase;

constexpr std::uint64_t kAddress = 0x7F0000000000, kBytes = 512;
constexpr std::string_view kOperator = "aten::empty", kCollective = "fsdp::all_gather_copy_in";

std::string_view op_of(const CategoryFacts& facts) {
  return facts.is_communication ? kCollective : kOperator;
}

// Every combination. Memory that is freed in its operator is freed in its step too.
std::vector<CategoryFacts> all_facts() {
  constexpr std::pair<bool, bool> kFates[] = {{false, false}, {false, true}, {true, true}};
  std::vector<CategoryFacts> all;
  for (std::uint8_t role = 0; role <= base::kRoleNames.size(); ++role) {
    for (std::uint8_t phase = 0; phase < base::kPhaseNames.size(); ++phase) {
      for (const bool is_adopted : {false, true}) {
        for (const bool is_communication : {false, true}) {
          for (const auto& [is_temporary, ends_with_step] : kFates) {
            all.push_back({.role = role,
                           .phase = base::phase_of(phase),
                           .is_adopted = is_adopted,
                           .is_temporary = is_temporary,
                           .is_communication = is_communication,
                           .ends_with_step = ends_with_step});
          }
        }
      }
    }
  }
  return all;
}

std::string text_of(const CategoryFacts& facts) {
  return "role " + std::to_string(facts.role) + ", " + std::string(name_of(facts.phase)) +
         (facts.is_adopted ? ", adopted" : "") + (facts.is_temporary ? ", temporary" : "") +
         (facts.is_communication ? ", communication" : "") +
         (facts.ends_with_step ? ", ends with its step" : "");
}

std::string category_of_first(const model::Trace& trace) {
  const model::DeviceTrace& device = trace.devices.at(0);
  return std::string(trace.strings[trace.category(device, device.lifetimes.born_at(0))]);
}

std::string in_a_recording(const CategoryFacts& facts) {
  tests::TraceFile file;
  format::Encoder encoder(file);
  encoder.define_name(1, op_of(facts));
  encoder.define_site(
      1, {.outer_op = 1, .inner_op = 1, .phase = static_cast<std::uint8_t>(facts.phase)});
  encoder.alloc({1'000, 1, 1, 0, kAddress, kBytes, facts.is_adopted});
  encoder.define_tensor(1, {facts.role, 0, 0, 0});
  encoder.tag({0, 1});
  if (facts.ends_with_step) encoder.free({2'000, 1, 0, 0, facts.is_temporary});
  encoder.mark({3'000, 1, PLIMSOLL_MARK_STEP, 1});
  encoder.finish(4'000);

  base::Diagnostics diagnostics;
  base::Progress progress;
  model::TraceBuilder builder(diagnostics);
  readers::ReadContext context{builder, diagnostics, progress,
                               readers::Limits{.memory_bytes = 1 << 30}};
  const auto source = readers::view_memory(file.bytes());
  EXPECT_TRUE(readers::native::make()->read(*source, context).ok());
  const auto trace = builder.finish("native", progress);
  return trace.ok() ? category_of_first(*trace) : trace.error().message;
}

// The block is in the history; the recording knows what ran, but has no tensor in the block.
std::string in_a_history(const CategoryFacts& facts) {
  constexpr model::Device kCuda{model::DeviceType::kCuda, 0};
  tests::TraceMaker recorded, history;
  base::Column<readers::ThreadActivity> activities;
  const auto activity = [&](std::int64_t time_ns, std::string_view op) {
    activities.push_back({time_ns, 1, {}, recorded.string(op), facts.phase});
  };
  activity(1'000, op_of(facts));
  history.on(kCuda).at(2'000).alloc(kAddress, kBytes);
  if (facts.is_temporary) history.at(3'000).free(kAddress, kBytes);
  activity(6'000, "");
  if (facts.ends_with_step && !facts.is_temporary) history.at(7'000).free(kAddress, kBytes);
  recorded.on({model::DeviceType::kCpu, -1}).at(10'000).alloc(64, 64).step(1);

  base::Diagnostics diagnostics;
  base::Progress progress;
  const auto trace = attribution::join_torch_history(recorded.finish(), history.finish(),
                                                     activities, diagnostics, progress);
  return trace.ok() ? category_of_first(*trace) : trace.error().message;
}

std::string in_live_memory(const CategoryFacts& facts) {
  plimsoll_live row{};
  row.role = facts.role;
  row.phase = static_cast<std::uint8_t>(facts.phase);
  row.is_adopted = facts.is_adopted ? 1 : 0;
  return std::string(name_of(sample::category_of(row)));
}

TEST(CategoryPaths, a_recording_has_the_category_of_the_facts) {
  for (const CategoryFacts& facts : all_facts()) {
    EXPECT_EQ(in_a_recording(facts), name_of(base::category_of(facts))) << text_of(facts);
  }
}

TEST(CategoryPaths, a_history_has_the_category_of_the_facts) {
  for (const CategoryFacts& facts : all_facts()) {
    if (facts.role != 0 || facts.is_adopted) continue;  // known only from tensors
    EXPECT_EQ(in_a_history(facts), name_of(base::category_of(facts))) << text_of(facts);
  }
}

TEST(CategoryPaths, live_memory_has_the_category_of_what_is_known_of_it) {
  for (const CategoryFacts& facts : all_facts()) {
    const CategoryFacts known{
        .role = facts.role, .phase = facts.phase, .is_adopted = facts.is_adopted};
    const base::Category category = base::category_of(known);
    EXPECT_EQ(in_live_memory(facts), name_of(category)) << text_of(facts);
    EXPECT_TRUE(base::is_found_live(category)) << text_of(facts);
  }
}

}  // namespace
}  // namespace plimsoll

// A recording of a scripted CUDA run, and the snapshot of the same run: their reports agree with
// each other and with a slow reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "engine/load.h"
#include "plimsoll/session.h"
#include "tests/cuda/script.h"
#include "tests/support/json_text.h"
#include "tests/support/recorded.h"

namespace plimsoll::tests {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

// torch's settings for CudaRun.
std::vector<SeenSetting> settings() {
  std::vector<SeenSetting> all = {
      {"PYTORCH_CUDA_ALLOC_CONF",
       std::string("expandable_segments:True,garbage_collection_threshold:0.8,"
                   "roundup_power2_divisions:[64:4,>:8]")},
      {"max_split_size", std::int64_t{-1}},
      {"garbage_collection_threshold", 0.8},
      {"expandable_segments", true},
      {"pinned_num_register_threads", std::int64_t{1}},
      {"release_lock_on_cudamalloc", false},
      {"pinned_use_cuda_host_register", false}};
  for (std::int64_t power = 1; power <= 1 << 15; power *= 2) {
    all.push_back(
        {"roundup_power2_divisions." + std::to_string(power), std::int64_t{power <= 64 ? 4 : 8}});
  }
  return all;
}

// Two devices, one with expandable segments; streams with pending frees; a private pool; an
// out-of-memory error that is caught.
class CudaRun {
 public:
  CudaRun() {
    libtorch_cuda::report_settings(*plimsoll_recorder(), settings());
    std::vector<std::uint64_t> weights;
    for (std::uint32_t i = 0; i < 6; ++i) {
      weights.push_back(plain.alloc(3 * kMiB + 100 * i, 10));
      weights.push_back(plain.alloc(900 + 7 * i, 11));
      weights.push_back(expandable.alloc(5 * kMiB + 300 * i, 12));
    }
    step();
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint64_t activation = plain.alloc((11 + i) * kMiB, 20, 7);
      const std::uint64_t small = expandable.alloc(70'000 * (i + 1), 21);
      const std::uint64_t large = expandable.alloc((30 + i) * kMiB, 22);
      plain.request_free(activation);  // a stream still uses it
      const std::uint64_t next = plain.alloc((12 + i) * kMiB, 23, 7);
      if (i == 2) step();  // while the free is pending
      plain.complete_free(activation);
      plain.free(next);
      expandable.free(large);
      if (i % 2 == 0) expandable.free(small);
    }
    captured = plain.alloc(2 * kMiB, 30, 7, {0, 1});
    plain.alloc(500, 31, 7, {0, 1});
    step();
    plain.free(weights[0]);
    plain.run_out(900 * kMiB, 40, 64 * kMiB);
    plain.empty_cache();
    expandable.empty_cache();
    plain.alloc(40 * kMiB, 41);
    pending = expandable.alloc(3 * kMiB, 42);
    expandable.request_free(pending);  // which ends the pending free
    step();
  }

  ScriptedDevice plain{0, {}};
  ScriptedDevice expandable{1, {.has_expandable_segments = true}};
  std::uint64_t captured = 0, pending = 0;
  std::vector<Bytes> plain_at_steps, expandable_at_steps;

 private:
  void step() {
    plain_at_steps.push_back(plain.held());
    expandable_at_steps.push_back(expandable.held());
    plimsoll_recorder()->mark(plimsoll_recorder()->context(), PLIMSOLL_MARK_STEP,
                              plain_at_steps.size());
  }
};

JsonValue report_of(std::span<const std::byte> bytes, const char* name) {
  const auto session = Session::open_memory(bytes, name);
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : session.error().message);
  if (!session.ok()) return {};
  const auto report = session->ask({.device = {}, .at = {}, .top = 1000, .analyses = {}});
  EXPECT_TRUE(report.ok());
  return report.ok() ? parsed_json(report->json()) : JsonValue{};
}

// Figures that only one of the two has: a script has no times, and a snapshot no block sizes.
bool is_of_one_side(std::string_view key) {
  return key.ends_with("time_ns") || key == "byte_seconds" || key == "allocated" ||
         key == "top_lines" || key == "need";  // estimated from steps and layers
}

std::string text_of(const JsonValue& value) {
  std::string text = value.is_null() ? "null" : value.text;
  for (const JsonValue& item : value.items) text += "\n- " + text_of(item);
  for (const auto& [key, member] : value.members) {
    if (is_of_one_side(key)) continue;
    text += "\n" + key + ": " + text_of(member);
  }
  return text;
}

// "max_split_size=-1", one per line.
std::string settings_text(std::span<const std::byte> bytes) {
  base::Progress progress;
  const auto loaded = engine::load(bytes, "file", progress);
  if (!loaded.ok()) return loaded.error().message;
  std::string text;
  for (const model::Setting& setting : loaded->trace.settings) {
    const auto as_text = [](const auto& value) {
      if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
        return std::to_string(value);
      } else {
        return value;
      }
    };
    text += setting.name + "[" + std::to_string(setting.value.index()) +
            "]=" + std::visit(as_text, setting.value) + "\n";
  }
  return text;
}

// Without the host, of which a snapshot knows nothing.
JsonValue without_host(JsonValue report) {
  const auto erase = [](JsonValue& rows, const char* key) {
    std::erase_if(rows.items,
                  [&](const JsonValue& row) { return row.has(key) && row[key].text == "-1"; });
  };
  for (auto& [name, member] : report.members) {
    if (name == "devices") erase(member, "device");
    if (name != "tables") continue;
    for (auto& [table, rows] : member.members) erase(rows, "device");
  }
  return report;
}

std::uint64_t unsigned_of(const JsonValue& value) {
  return static_cast<std::uint64_t>(value.integer());
}

class ScriptedRun : public testing::Test {
 protected:
  void SetUp() override {
    const TemporaryPath path("scripted_cuda.plimsoll");
    Recorded recording = Recorded::into_file(path.str());
    run = std::make_unique<CudaRun>();
    recording.stop();
    file = TraceReplay::bytes_of(path.str());
    recorded = without_host(report_of(file, "recording"));
    pickle = snapshot_of({&run->plain, &run->expandable}, settings());
    snapshot = report_of(std::as_bytes(std::span(pickle)), "snapshot");
    ASSERT_EQ(run->plain.misfits() + run->expandable.misfits(), 0u);
  }

  // The report on the snapshot to which the recording is exported.
  JsonValue as_snapshot() const {
    auto session = Session::open_memory(file, "recording");
    EXPECT_TRUE(session.ok());
    std::string exported;
    const auto append = [&](std::string_view piece) {
      exported += piece;
      return true;
    };
    EXPECT_TRUE(session.ok() && session->export_to("snapshot", append));
    return without_host(report_of(std::as_bytes(std::span(exported)), "exported"));
  }

  std::unique_ptr<CudaRun> run;
  std::vector<std::byte> file;
  std::string pickle;
  JsonValue recorded, snapshot;
};

TEST_F(ScriptedRun, the_two_reports_agree) {
  ASSERT_EQ(recorded["devices"].size(), 2u);
  ASSERT_EQ(snapshot["devices"].size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(snapshot["devices"][i]["allocated"].is_null());
    for (const auto& [name, value] : snapshot["devices"][i].members) {
      if (is_of_one_side(name)) continue;
      EXPECT_EQ(text_of(recorded["devices"][i][name]), text_of(value))
          << "devices[" << i << "]." << name;
    }
  }
  EXPECT_EQ(text_of(recorded["tables"]["sites"]), text_of(snapshot["tables"]["sites"]));
}

// Tables of a recording count allocated bytes, those of a snapshot requested bytes: the comparison
// uses the recording's events in snapshot form.
TEST_F(ScriptedRun, the_tables_of_its_events_are_those_of_the_snapshot) {
  const JsonValue exported = as_snapshot();
  for (const char* table : {"by_line", "by_stack", "by_size", "by_stream", "sites"}) {
    EXPECT_EQ(text_of(exported["tables"][table]), text_of(snapshot["tables"][table])) << table;
  }
  const auto lines_at_failure = [](const JsonValue& report) {
    return text_of(report["devices"][0]["oom_details"][0]["top_lines"]);
  };
  EXPECT_EQ(lines_at_failure(exported), lines_at_failure(snapshot));
}

// The memory by line at the failure equals the tables of that point in time.
TEST_F(ScriptedRun, the_lines_of_a_failure_are_those_of_its_tables) {
  const auto session = Session::open_memory(file, "recording");
  ASSERT_TRUE(session.ok());
  const auto answer = session->ask({.device = "cuda:0", .at = "oom", .top = 1000, .analyses = {}});
  ASSERT_TRUE(answer.ok());
  const JsonValue report = parsed_json(answer->json());
  const JsonValue& lines = report["devices"][0]["oom_details"][0]["top_lines"];
  ASSERT_GT(lines.size(), 2u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const JsonValue& row = report["tables"]["by_line"][i];
    EXPECT_EQ(text_of(lines[i]["key"]), text_of(row["key"]));
    EXPECT_EQ(text_of(lines[i]["bytes"]), text_of(row["bytes"]));
  }
}

TEST_F(ScriptedRun, tables_sum_to_the_most_that_was_allocated) {
  for (std::size_t i = 0; i < 2; ++i) {
    const JsonValue& point = recorded["tables"]["points_in_time"].items[i];
    const JsonValue& peak = recorded["devices"][i]["allocated"];
    EXPECT_EQ(text_of(point["live_bytes"]), text_of(peak["peak_bytes"]));
    EXPECT_EQ(text_of(point["event"]), text_of(peak["peak_event"]));
    EXPECT_EQ(point["unexplained_bytes"].integer(), 0);
    for (const char* table : {"by_line", "by_stack", "by_size", "by_stream", "by_category"}) {
      std::uint64_t sum = 0;
      for (const JsonValue& row : recorded["tables"][table].items) {
        if (row["device"].integer() == point["device"].integer()) sum += unsigned_of(row["bytes"]);
      }
      EXPECT_EQ(sum, unsigned_of(peak["peak_bytes"])) << table;
    }
  }
}

TEST_F(ScriptedRun, both_report_the_settings_of_the_allocator_and_advise_by_them) {
  const std::string reported = settings_text(std::as_bytes(std::span(pickle)));
  EXPECT_EQ(settings_text(file), reported);
  EXPECT_NE(reported.find("garbage_collection_threshold[2]=0.8"), std::string::npos) << reported;
  EXPECT_NE(reported.find("roundup_power2_divisions.128[1]=8"), std::string::npos) << reported;
  const auto advice = [](const JsonValue& report) {
    std::string text;
    for (const JsonValue& finding : report["findings"].items) {
      const std::string& id = finding["id"].text;
      if (id != "out_of_memory" && id != "allocator_settings_conflict") continue;
      text += id + ": " + finding["next_step"].text + "\n";
    }
    return text;
  };
  EXPECT_EQ(advice(recorded), advice(snapshot));
  EXPECT_NE(advice(recorded).find("allocator_settings_conflict"), std::string::npos);
  EXPECT_EQ(advice(recorded).find("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments"),
            std::string::npos);
}

TEST_F(ScriptedRun, its_totals_are_those_of_the_reference) {
  const auto check = [&](const JsonValue& device, const ScriptedDevice& script) {
    const Bytes end = script.held();
    EXPECT_EQ(script.history().back().requested, end.requested);
    EXPECT_EQ(script.history().back().reserved, end.reserved);
    const auto peak = [&](std::uint64_t Bytes::* which) {
      std::uint64_t most = 0;
      for (const Bytes& at : script.history()) most = std::max(most, at.*which);
      return most;
    };
    const auto series = [&](const char* name, std::uint64_t Bytes::* which) {
      EXPECT_EQ(device[name]["baseline_bytes"].integer(), 0) << name;
      EXPECT_EQ(unsigned_of(device[name]["peak_bytes"]), peak(which)) << name;
      EXPECT_EQ(unsigned_of(device[name]["end_bytes"]), end.*which) << name;
    };
    series("requested_allocated", &Bytes::requested);
    series("requested_active", &Bytes::requested_active);
    series("allocated", &Bytes::allocated);
    series("reserved", &Bytes::reserved);
    EXPECT_EQ(unsigned_of(device["allocated_bytes_end"]), end.allocated);
    const double ratio =
        1.0 - static_cast<double>(end.allocated) / static_cast<double>(end.reserved);
    EXPECT_DOUBLE_EQ(device["fragmentation"]["ratio"].number(), ratio);
    EXPECT_EQ(unsigned_of(device["fragmentation"]["cached_bytes"]), end.reserved - end.active);
  };
  check(recorded["devices"][0], run->plain);
  check(recorded["devices"][1], run->expandable);
  ASSERT_EQ(recorded["devices"][0]["ooms"].size(), 1u);
  EXPECT_EQ(unsigned_of(recorded["devices"][0]["ooms"][0]["device_free_bytes"]), 64 * kMiB);
  EXPECT_EQ(unsigned_of(recorded["devices"][0]["ooms"][0]["requested_bytes"]), 900 * kMiB);
}

// Pending blocks are not allocated, tails are. Equals torch.cuda.memory_allocated() to the byte.
TEST_F(ScriptedRun, at_every_step_the_categories_sum_to_allocated_bytes) {
  std::size_t steps = 0;
  for (const auto& row : recorded["tables"]["steps"].items) {
    if (row["is_complete"].text != "true") continue;
    const bool is_plain = row["device"].integer() == 0;
    const auto& flag = is_plain ? run->plain_at_steps : run->expandable_at_steps;
    const std::uint64_t allocated = flag.at(unsigned_of(row["step"]) - 1).allocated;
    std::uint64_t sum = 0;
    for (const auto& category : row["categories"].items) sum += unsigned_of(category["end_bytes"]);
    EXPECT_EQ(sum, allocated) << "step " << unsigned_of(row["step"]);
    EXPECT_EQ(unsigned_of(row["end_bytes"]), allocated);
    ++steps;
  }
  EXPECT_EQ(steps, run->plain_at_steps.size() * 2);
}

TEST_F(ScriptedRun, as_a_snapshot_for_torch_it_says_the_same) {
  EXPECT_EQ(text_of(as_snapshot()["devices"]), text_of(recorded["devices"]));
}

TEST_F(ScriptedRun, a_recording_leaves_nothing_unsaid) {
  for (const auto& diagnostic : recorded["source"]["diagnostics"].items) {
    EXPECT_EQ(diagnostic["severity"].text, "info") << diagnostic["name"].text;
  }
}

}  // namespace
}  // namespace plimsoll::tests

#include "readers/native/native_reader.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/live_set.h"
#include "plimsoll/recorder_c.h"
#include "readers/native/diagnostics.h"
#include "readers/native/last_uses.h"
#include "tests/support/random_events.h"
#include "tests/support/trace_difference.h"
#include "tests/support/trace_file.h"

namespace plimsoll::readers::native {
namespace {

using model::Action;
using model::LifetimeFlags;
using model::Phase;
using testing::HasSubstr;
using tests::AnyEvent;
using tests::RandomRecording;
using tests::TraceFile;

struct Read {
  Status status;
  model::Trace trace;
  base::Diagnostics diagnostics;

  std::string_view text(model::StringId id) const { return trace.strings[id]; }
  const model::DeviceTrace& device() const { return trace.devices.at(0); }
  std::size_t lifetime(std::uint32_t event) const { return device().lifetimes.born_at(event); }
  std::string_view category(std::uint32_t event) const {
    return text(trace.category(device(), lifetime(event)));
  }
};

Read read(std::span<const std::byte> bytes, std::size_t piece = SIZE_MAX) {
  Read result;
  model::TraceBuilder builder(result.diagnostics);
  base::Progress progress;
  ReadContext context{builder, result.diagnostics, progress, Limits{.memory_bytes = 1 << 30}};
  const auto source = view_memory(bytes, piece);
  result.status = make()->read(*source, context);
  if (!result.status) return result;
  auto trace = builder.finish(make()->name(), progress);
  EXPECT_TRUE(trace.ok());
  if (trace.ok()) result.trace = std::move(*trace);
  return result;
}

// Writes a file record by record: one thread, with events a microsecond apart.
class Writer {
 public:
  static constexpr std::int64_t kStartNs = 1'000'000'000;

  Writer() : encoder_(file_) {}

  Writer& state(const format::FileState& state) {
    const auto block = format::encode_file_state(state);
    file_.write({.kind = format::BlockKind::kFileState, .events = 0, .bytes = block});
    encoder_.process({.started_ns = kStartNs});
    return *this;
  }
  Writer& site(std::uint32_t id, std::uint8_t phase, std::uint8_t device = 0) {
    encoder_.define_site(id, {.phase = phase, .device = device});
    return *this;
  }
  Writer& alloc(std::uint64_t serial, std::uint32_t site, std::uint64_t size_bytes = 100) {
    encoder_.alloc({now_ += 1'000, 1, site, serial, 64 * (serial + 1), size_bytes, false});
    return *this;
  }
  Writer& adopt(std::uint64_t serial, std::uint32_t site, std::uint64_t size_bytes = 100) {
    encoder_.alloc({now_ += 1'000, 1, site, serial, 64 * (serial + 1), size_bytes, true});
    return *this;
  }
  Writer& free(std::uint64_t serial) {
    encoder_.free({now_ += 1'000, 1, serial, 0, false});
    return *this;
  }
  Writer& free(std::uint64_t serial, const format::EndUse& last) {
    encoder_.free({now_ += 1'000, 1, serial, 0, false}, last);
    return *this;
  }
  Writer& free_in_op(std::uint64_t serial) {
    encoder_.free({now_ += 1'000, 1, serial, 0, true});
    return *this;
  }
  Writer& tag(std::uint64_t serial, std::uint8_t role) {
    encoder_.define_tensor(role + 1u, {role, 0, 0, 0});
    encoder_.tag({serial, role + 1u});
    return *this;
  }
  Writer& mark(std::uint8_t kind, std::uint64_t value = 0) {
    encoder_.mark({now_ += 1'000, 1, kind, value});
    return *this;
  }
  format::Encoder& encoder() { return encoder_; }
  Read finish() {
    encoder_.finish(now_);
    return read(file_.bytes());
  }
  Read kill() {
    encoder_.flush();
    return read(file_.bytes());
  }
  TraceFile& file() { return file_; }

 private:
  TraceFile file_;
  format::Encoder encoder_;
  std::int64_t now_ = 1'000'000;
};

TEST(NativeReader, reads_the_drivers_figures_for_a_device) {
  Writer writer;
  writer.encoder().define_device(1, {PLIMSOLL_DEVICE_CUDA, 3});
  writer.encoder().define_name(1, "serve");
  const auto emit = [&](std::uint8_t device, std::uint8_t figure, std::uint64_t value,
                        std::uint32_t pid = 0, std::uint32_t name = 0) {
    writer.encoder().device_figure({5'000'000, device, figure, value, pid, name});
  };
  writer.site(1, PLIMSOLL_PHASE_OTHER, 1).site(2, PLIMSOLL_PHASE_OTHER, 0).alloc(0, 2);
  emit(1, PLIMSOLL_FIGURE_FREE, 1);  // its beginning is not in the file
  emit(1, PLIMSOLL_FIGURE_TOTAL, 1000);
  emit(2, PLIMSOLL_FIGURE_TOTAL, 9);  // its end is not, either
  emit(1, PLIMSOLL_FIGURE_DRIVER, 50);
  emit(1, PLIMSOLL_FIGURE_OWN, 400);
  emit(1, PLIMSOLL_FIGURE_CONTEXT, 60);
  emit(1, PLIMSOLL_FIGURE_NCCL, 0);
  emit(1, PLIMSOLL_FIGURE_PROCESS, 100, 77, 1);
  emit(1, PLIMSOLL_FIGURE_PROCESS_UNREPORTED, 0, 78, 99);
  emit(1, 200, 1);  // from a later version
  emit(1, PLIMSOLL_FIGURE_FREE, 300);
  writer.alloc(1, 1);
  emit(1, PLIMSOLL_FIGURE_TOTAL, 1000);
  emit(1, PLIMSOLL_FIGURE_PROCESSES_UNLISTED, 0);
  emit(1, PLIMSOLL_FIGURE_FREE, 200);
  const Read result = writer.finish();
  ASSERT_EQ(result.trace.readings.size(), 2u);
  const model::DeviceReading& reading = result.trace.readings[0];
  EXPECT_EQ(to_string(reading.device), "cuda:3");
  EXPECT_EQ(reading.time_ns, 5'000'000);
  EXPECT_EQ(reading.events_before, 0u);
  EXPECT_EQ(reading.figures.total_bytes, 1000u);
  EXPECT_EQ(reading.figures.free_bytes, 300u);
  EXPECT_EQ(reading.figures.driver_bytes, 50u);
  EXPECT_EQ(reading.figures.own_bytes, 400u);
  EXPECT_EQ(reading.figures.context_bytes, 60u);
  EXPECT_TRUE(reading.figures.has_nccl);
  EXPECT_TRUE(reading.figures.reports_processes);
  ASSERT_EQ(reading.figures.processes.size(), 2u);
  EXPECT_EQ(reading.figures.processes[0].pid, 77);
  EXPECT_EQ(reading.figures.processes[0].name, "serve");
  EXPECT_EQ(reading.figures.processes[0].used_bytes, 100u);
  EXPECT_EQ(reading.figures.processes[1].name, "");
  EXPECT_FALSE(reading.figures.processes[1].used_bytes);
  EXPECT_EQ(result.trace.readings[1].events_before, 1u);
  EXPECT_FALSE(result.trace.readings[1].figures.own_bytes);
  EXPECT_FALSE(result.trace.readings[1].figures.reports_processes);
}

TEST(NativeReader, recognizes_its_files_by_their_first_bytes) {
  const TraceFile file;
  EXPECT_EQ(make()->sniff(file.bytes()), Confidence::kCertain);
  EXPECT_EQ(make()->sniff(std::span(file.bytes()).first(7)), Confidence::kNo);
  EXPECT_EQ(make()->sniff(std::as_bytes(std::span("PLIMSOLL"))), Confidence::kNo);
}

TEST(NativeReader, passes_on_side_data) {
  Writer writer;
  writer.encoder().define_name(1, "Net.fc");
  writer.encoder().define_name(2, "aten::mm");
  writer.mark(PLIMSOLL_MARK_LAYER, 1).mark(PLIMSOLL_MARK_PHASE, PLIMSOLL_PHASE_BACKWARD);
  writer.encoder().attachment("one", std::vector<std::byte>(600'000, std::byte{1}));
  writer.mark(PLIMSOLL_MARK_OPERATOR, 2).mark(PLIMSOLL_MARK_OPERATOR, 0);
  writer.encoder().attachment("two", std::vector<std::byte>(3));
  writer.encoder().attachment("one", std::vector<std::byte>(5, std::byte{2}));
  writer.encoder().finish(9'000'000);
  base::Diagnostics diagnostics;
  model::TraceBuilder builder(diagnostics);
  base::Progress progress;
  SideData side_data;
  ReadContext context{builder, diagnostics, progress, Limits{.memory_bytes = 1 << 30}, &side_data};
  const auto source = view_memory(writer.file().bytes(), 1'000);
  ASSERT_TRUE(make()->read(*source, context).ok());
  ASSERT_EQ(side_data.attachments.size(), 2u);
  EXPECT_EQ(side_data.attachments[0].format, "one");
  EXPECT_EQ(side_data.attachments[0].bytes, std::vector<std::byte>(5, std::byte{2}));
  EXPECT_EQ(side_data.attachments[1].bytes, std::vector<std::byte>(3));
  ASSERT_EQ(side_data.activities.size(), 4u);
  const auto text = [&](model::StringId id) { return builder.strings()[id]; };
  EXPECT_EQ(text(side_data.activities[2].layer), "Net.fc");
  EXPECT_EQ(text(side_data.activities[2].op), "aten::mm");
  EXPECT_EQ(side_data.activities[2].phase, Phase::kBackward);
  EXPECT_EQ(side_data.activities[2].time_ns, 1'003'000);
  EXPECT_EQ(text(side_data.activities[3].op), "");
  EXPECT_EQ(builder.event_count(), 0u);  // the trace itself shows no sign of them
}

TEST(NativeReader, rejects_attachments_beyond_its_memory) {
  Writer writer;
  writer.encoder().attachment("one", std::vector<std::byte>(3 << 20));
  writer.encoder().finish(9'000'000);
  base::Diagnostics diagnostics;
  model::TraceBuilder builder(diagnostics);
  base::Progress progress;
  SideData side_data;
  ReadContext context{builder, diagnostics, progress, Limits{.memory_bytes = 1 << 20}, &side_data};
  const auto source = view_memory(writer.file().bytes());
  const Status status = make()->read(*source, context);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kLimit);
}

TEST(NativeReader, reports_an_allocation_with_its_full_attribution) {
  Writer writer;
  format::Encoder& encoder = writer.encoder();
  const char* const names[] = {"net.fc1",        "aten::linear", "aten::addmm",
                               "AddmmBackward0", "train.py",     "<module>",
                               "fc1.weight",     "float32",      "[10, 10]"};
  for (std::uint32_t id = 1; id <= std::size(names); ++id) encoder.define_name(id, names[id - 1]);
  encoder.define_stack(7, std::vector<format::Frame>{{5, 6, 12}, {5, 6, 0}});
  encoder.define_site(3, {1, 2, 3, 4, 7, PLIMSOLL_PHASE_BACKWARD, 0});
  encoder.define_tensor(2, {PLIMSOLL_ROLE_PARAMETER, 7, 8, 9});
  encoder.alloc({123'456'789, 5, 3, 1'000, 0x7f00'0000'0040, 400, false});
  encoder.tag({1'000, 2});
  encoder.free({123'456'999, 6, 1'000, 0, false});
  const Read read = writer.finish();
  ASSERT_TRUE(read.status.ok());
  ASSERT_EQ(read.trace.event_count(), 2u);
  const model::Event event = read.trace.event(read.trace.devices.at(0), 0);
  EXPECT_EQ(event.action, Action::kAlloc);
  EXPECT_EQ(event.address, 0x7f00'0000'0040u);
  EXPECT_EQ(event.size_bytes, 400u);
  EXPECT_EQ(event.time_ns, 123'456'789);
  EXPECT_EQ(read.text(event.layer), "net.fc1");
  EXPECT_EQ(read.text(event.op), "aten::linear");
  EXPECT_EQ(read.text(event.inner_op), "aten::addmm");
  EXPECT_EQ(read.text(event.forward_op), "AddmmBackward0");
  EXPECT_EQ(event.phase, Phase::kBackward);
  EXPECT_EQ(read.category(0), "parameter");
  const auto frames = read.trace.stacks.frames(event.stack);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(read.text(read.trace.stacks.frame(frames[0]).file), "train.py");
  EXPECT_EQ(read.trace.stacks.frame(frames[0]).line, 12u);
  EXPECT_EQ(read.trace.stacks.frame(frames[1]).line, model::kUnknownLine);
  const model::Tensor& tensor = read.trace.tensors[read.device().lifetimes.tensor[0].index()];
  EXPECT_EQ(read.text(tensor.name), "fc1.weight");
  EXPECT_EQ(read.text(tensor.dtype), "float32");
  EXPECT_EQ(read.text(tensor.shape), "[10, 10]");
  const model::Event freed = read.trace.event(read.trace.devices.at(0), 1);
  EXPECT_EQ(freed.action, Action::kFree);
  EXPECT_EQ(freed.address, event.address);
  EXPECT_EQ(freed.size_bytes, 400u);
  EXPECT_EQ(freed.time_ns, 123'456'999);
  EXPECT_EQ(freed.stack, model::kNoStack);
  ASSERT_EQ(read.trace.devices.size(), 1u);
  EXPECT_EQ(to_string(read.trace.devices[0].device), "cpu");
  EXPECT_EQ(read.trace.devices[0].history, model::History::kComplete);
  EXPECT_TRUE(read.diagnostics.all().empty());
}

TEST(NativeReader, reads_the_programs_source_and_modules) {
  Writer writer;
  format::Encoder& encoder = writer.encoder();
  encoder.source_line({1, 12, 77, "x = f(y)"});  // before its names
  encoder.source_line({1, 13, 78, ""});
  encoder.function({1, 2, 10});
  encoder.module({3, 4, 300, PLIMSOLL_MODULE_IN_EVAL_MODE});
  encoder.module({3, 5, 500, PLIMSOLL_MODULE_CHECKPOINTS | PLIMSOLL_MODULE_ONLY_HOLDS});
  encoder.define_name(1, "train.py");
  encoder.define_name(2, "step");
  encoder.define_name(3, "Net.fc");
  encoder.define_name(5, "Linear");
  const Read read = writer.site(1, 0).alloc(0, 1).finish();
  const model::ProgramSource& source = read.trace.source;
  ASSERT_EQ(source.lines().size(), 2u);
  const model::StringId file = source.lines()[0].file;
  EXPECT_EQ(read.text(file), "train.py");
  EXPECT_EQ(source.line(file, 12)->text, "x = f(y)");
  EXPECT_EQ(source.line(file, 12)->hash, 77u);
  EXPECT_EQ(source.line(file, 13)->text, "");
  EXPECT_EQ(source.first_line(file, source.starts()[0].function, 12), 10u);
  ASSERT_EQ(read.trace.modules.size(), 1u);
  EXPECT_EQ(read.text(read.trace.modules[0].path), "Net.fc");
  EXPECT_EQ(read.text(read.trace.modules[0].type), "Linear");
  EXPECT_EQ(read.trace.modules[0].parameter_bytes, 500u);
  EXPECT_FALSE(read.trace.modules[0].is_in_eval_mode);
  EXPECT_TRUE(read.trace.modules[0].checkpoints);
  EXPECT_TRUE(read.trace.modules[0].only_holds);
}

TEST(NativeReader, reads_the_number_of_ranks) {
  for (const auto& [text, ranks] : {std::pair{"8", 8}, {"0", 0}, {"-3", 0}, {"many", 0}}) {
    Writer writer;
    writer.encoder().meta("world_size", text);
    EXPECT_EQ(writer.alloc(0, 1).finish().trace.world_size.value_or(0), ranks) << text;
  }
}

TEST(NativeReader, decides_categories_with_hindsight) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_FORWARD)
      .site(2, PLIMSOLL_PHASE_BACKWARD)
      .site(3, PLIMSOLL_PHASE_OPTIMIZER);
  writer.adopt(0, 3).adopt(1, 3).tag(1, PLIMSOLL_ROLE_PARAMETER);
  writer.alloc(2, 1).alloc(3, 1).free_in_op(3).alloc(4, 2).alloc(5, 3);
  writer.alloc(6, 2).tag(6, PLIMSOLL_ROLE_KNOWN).tag(6, PLIMSOLL_ROLE_GRADIENT);
  writer.alloc(7, 3).tag(7, PLIMSOLL_ROLE_OPTIMIZER_STATE);
  writer.alloc(8, 1).tag(8, PLIMSOLL_ROLE_INPUT).tag(8, PLIMSOLL_ROLE_BUFFER);
  writer.alloc(9, 1).tag(9, PLIMSOLL_ROLE_INPUT).tag(9, PLIMSOLL_ROLE_KNOWN);
  writer.alloc(10, 3);
  writer.encoder().set_phase({10, PLIMSOLL_PHASE_FORWARD});
  writer.alloc(11, 1).tag(11, PLIMSOLL_ROLE_WORKSPACE).free_in_op(11);
  writer.adopt(12, 3).tag(12, PLIMSOLL_ROLE_WORKSPACE);
  writer.adopt(13, 1);  // seen by the recorder before this recording
  writer.encoder().set_phase({13, PLIMSOLL_PHASE_FORWARD});
  const Read read = writer.finish();
  std::vector<std::string_view> words;
  for (std::uint32_t row = 0; row < read.trace.event_count(); ++row) {
    if (read.trace.devices.at(0).events.action[row] == Action::kAlloc)
      words.push_back(read.category(row));
  }
  EXPECT_THAT(words, testing::ElementsAre("unknown", "parameter", "activation", "temporary",
                                          "activation_gradient", "other", "gradient",
                                          "optimizer_state", "buffer", "input", "activation",
                                          "workspace", "workspace", "activation"));
  EXPECT_EQ(read.trace.birth(read.device(), 10).phase, Phase::kForward);
  EXPECT_EQ(read.device().lifetimes.flags[read.lifetime(0)], LifetimeFlags::kAdopted);
  EXPECT_EQ(read.device().lifetimes.flags[read.lifetime(3)], LifetimeFlags::kTemporary);
  EXPECT_EQ(read.diagnostics.count(kAllocatedBeforeRecording), 1u);
}

TEST(NativeReader, memory_kept_beyond_an_optimizer_step_is_not_scratch) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_OPTIMIZER);
  writer.alloc(0, 1).alloc(1, 1).alloc(2, 1).free(0).mark(PLIMSOLL_MARK_STEP, 1);
  writer.alloc(3, 1).free(1).free(3);  // the last step has not ended
  const Read read = writer.finish();
  std::map<std::uint64_t, std::string_view> words;  // by serial
  for (std::uint32_t row = 0; row < read.trace.event_count(); ++row) {
    if (read.trace.devices.at(0).events.action[row] != Action::kAlloc) continue;
    words[read.trace.devices.at(0).events.address[row] / 64 - 1] = read.category(row);
  }
  EXPECT_EQ(words[0], "optimizer_scratch");
  EXPECT_EQ(words[1], "other");
  EXPECT_EQ(words[2], "other");
  EXPECT_EQ(words[3], "optimizer_scratch");
}

TEST(NativeReader, flags_allocations_live_when_their_backward_begins) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_FORWARD).site(2, PLIMSOLL_PHASE_BACKWARD);
  writer.alloc(0, 1).alloc(1, 1).free(0).mark(PLIMSOLL_MARK_BACKWARD_BEGIN).free(1);
  writer.alloc(2, 2).mark(PLIMSOLL_MARK_BACKWARD_END).alloc(3, 1);
  writer.mark(PLIMSOLL_MARK_BACKWARD_BEGIN).alloc(4, 1);
  const Read read = writer.finish();
  std::map<std::uint64_t, bool> saved;  // by serial
  for (std::uint32_t row = 0; row < read.trace.event_count(); ++row) {
    if (read.trace.devices.at(0).events.action[row] != Action::kAlloc) continue;
    saved[read.trace.devices.at(0).events.address[row] / 64 - 1] =
        has(read.device().lifetimes.flags[read.lifetime(row)], LifetimeFlags::kSavedForBackward);
  }
  EXPECT_EQ(saved, (std::map<std::uint64_t, bool>{
                       {0, false}, {1, true}, {2, false}, {3, true}, {4, false}}));
}

TEST(NativeReader, puts_marks_between_the_events) {
  Writer writer;
  writer.encoder().define_name(5, "warmup");
  writer.site(1, 0).mark(PLIMSOLL_MARK_REGION_BEGIN, 5).alloc(0, 1).mark(PLIMSOLL_MARK_STEP, 7);
  writer.alloc(1, 1).mark(PLIMSOLL_MARK_REGION_END, 5).mark(200);
  const Read read = writer.finish();
  ASSERT_EQ(read.trace.marks.size(), 3u);
  EXPECT_EQ(read.text(read.trace.marks[0].name), "warmup");
  EXPECT_EQ(read.trace.marks[1].step, 7u);
  EXPECT_EQ(read.trace.marks[2].kind, model::MarkKind::kRegionEnd);
  EXPECT_THAT(read.trace.devices[0].mark_events, testing::ElementsAre(0u, 1u, 2u));
  EXPECT_EQ(read.diagnostics.count(kLaterVersion), 1u);
}

TEST(NativeReader, flags_what_the_garbage_collector_frees_on_its_thread) {
  Writer writer;
  writer.site(1, 0).alloc(0, 1).alloc(1, 1).alloc(2, 1).alloc(3, 1);
  writer.mark(PLIMSOLL_MARK_COLLECTION_BEGIN, 0).mark(PLIMSOLL_MARK_COLLECTION_END, 0);
  writer.mark(PLIMSOLL_MARK_COLLECTION_BEGIN, 0).free(0);
  writer.encoder().free({100'000, 2, 1, 0, false});
  writer.mark(PLIMSOLL_MARK_COLLECTION_END, 0).free(2);
  writer.mark(PLIMSOLL_MARK_COLLECTION_BEGIN, 2).mark(PLIMSOLL_MARK_COLLECTION_END, 2).free(3);
  const Read read = writer.finish();
  std::vector<bool> collected;
  for (std::uint32_t row = 0; row < 4; ++row) {
    collected.push_back(
        has(read.device().lifetimes.flags[read.lifetime(row)], LifetimeFlags::kCollected));
  }
  EXPECT_THAT(collected, testing::ElementsAre(true, false, false, false));
  // The collections that freed memory, or that examined all objects.
  std::vector<std::pair<model::MarkKind, bool>> marks;
  for (const model::Mark& mark : read.trace.marks) marks.emplace_back(mark.kind, mark.is_full);
  using model::MarkKind;
  EXPECT_THAT(marks, testing::ElementsAre(std::pair(MarkKind::kCollectionBegin, false),
                                          std::pair(MarkKind::kCollectionEnd, false),
                                          std::pair(MarkKind::kCollectionBegin, true),
                                          std::pair(MarkKind::kCollectionEnd, true)));
  EXPECT_THAT(read.trace.devices[0].mark_events, testing::ElementsAre(4u, 6u, 7u, 7u));
}

TEST(NativeReader, a_collection_whose_end_was_lost_frees_nothing_more) {
  Writer writer;
  writer.site(1, 0).alloc(0, 1).alloc(1, 1).mark(PLIMSOLL_MARK_COLLECTION_BEGIN, 2).free(0);
  writer.encoder().dropped({100'000, 1, 3});
  writer.free(1);
  const Read read = writer.finish();
  const auto& flags = read.device().lifetimes.flags;
  EXPECT_TRUE(has(flags[read.lifetime(0)], LifetimeFlags::kCollected));
  EXPECT_FALSE(has(flags[read.lifetime(1)], LifetimeFlags::kCollected));
}

std::vector<std::uint32_t> holders_of(const Read& read) {
  const model::Lifetimes& lifetimes = read.device().lifetimes;
  std::vector<std::uint32_t> rows;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) rows.push_back(lifetimes.holder[i]);
  return rows;
}

TEST(NativeReader, memory_has_the_last_link_of_the_last_walk_that_reached_it) {
  Writer writer;
  writer.site(1, 0).alloc(0, 1).alloc(1, 1).alloc(2, 1);
  format::Encoder& encoder = writer.encoder();
  encoder.define_name(1, "losses");
  encoder.holder_walk({Writer::kStartNs, 0, 1000, 10, 5});
  encoder.holder_link({0, PLIMSOLL_LINK_MODULE, 0, 0, 0, 0, 0, 0});
  encoder.holder_link({1, PLIMSOLL_LINK_ATTRIBUTE, 1, 0, 0, 0, 12, 0});
  encoder.held({0, 2});
  encoder.held({1, 2});
  encoder.held({77, 2});
  encoder.held({2, 3});  // no such link
  encoder.holder_cut({2, 0, 2, 200, 0, 0, 0});
  encoder.holder_walk({Writer::kStartNs, 4, 1, 0, 5});
  encoder.holder_link({0, 99, 0, 0, 0, 0, 0, 0});
  encoder.held({1, 1});
  encoder.holder_link({7, 0, 0, 0, 0, 0, 0, 0});  // a damaged file
  encoder.held({0, 1});
  const Read read = writer.finish();
  EXPECT_THAT(holders_of(read), ElementsAre(2, 3, 0));
  const model::Holders& holders = read.trace.holders;
  ASSERT_EQ(holders.walks.size(), 2u);
  EXPECT_EQ(holders.walks[1].end, PLIMSOLL_WALK_TIME);
  ASSERT_EQ(holders.links.size(), 4u);
  EXPECT_EQ(read.text(holders.links[2].name), "losses");
  EXPECT_EQ(holders.links[2].parent, 1u);
  EXPECT_EQ(holders.links[2].length, 12u);
  EXPECT_EQ(holders.links[3].kind, PLIMSOLL_LINK_OTHER);
  EXPECT_EQ(holders.links[3].walk, 1u);
  ASSERT_EQ(holders.cuts.size(), 1u);
  EXPECT_EQ(holders.cuts[0].link, 2u);
}

std::vector<std::uint32_t> unused_from(const Read& read, std::size_t device = 0) {
  const model::Lifetimes& lifetimes = read.trace.devices.at(device).lifetimes;
  std::vector<std::uint32_t> rows;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) rows.push_back(lifetimes.unused_from[i]);
  return rows;
}

TEST(NativeReader, last_uses_end_before_the_first_allocation_after_them) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_OTHER).adopt(0, 1).mark(PLIMSOLL_MARK_USES, 1);
  writer.alloc(1, 1).alloc(2, 1).free(1, {1 + 1, 2});  // events 1, 2, 3: used before 2
  writer.alloc(3, 1).free(2, {1, 0}).alloc(4, 1);      // 4, 5, 6: used until 5, before 6
  writer.free_in_op(3);                                // 7: no allocation follows
  writer.encoder().last_use({0, 1 + 4, 0});            // adopted: used before, perhaps
  writer.encoder().last_use({4, 1, 0});
  const Read read = writer.finish();
  EXPECT_TRUE(read.trace.has_uses);
  EXPECT_THAT(unused_from(read), ElementsAre(model::kNone, 2, 6, 8, 8));
  EXPECT_EQ(read.device().lifetimes.use(1).silence, 1u);
  EXPECT_EQ(read.device().lifetimes.use(1).gap_bound(), 2u);
  EXPECT_EQ(read.device().lifetimes.use(0).silence, 4u);
}

TEST(NativeReader, last_uses_on_one_device_are_timed_by_allocations_on_all) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_OTHER).site(2, PLIMSOLL_PHASE_OTHER, 1);
  writer.encoder().define_device(1, {PLIMSOLL_DEVICE_CUDA, 0});
  writer.mark(PLIMSOLL_MARK_USES, 1);
  writer.alloc(0, 1).alloc(1, 2).alloc(2, 2).alloc(3, 1).alloc(4, 2);
  writer.free(1, {1 + 3, 0});  // used before serial 2
  writer.free(0, {1 + 4, 0});  // used before serial 1: on the CPU, before serial 3
  const Read read = writer.finish();
  EXPECT_THAT(unused_from(read, 1), ElementsAre(1, model::kNone));  // the CPU
  EXPECT_THAT(unused_from(read, 0), ElementsAre(1, model::kNone, model::kNone));
}

TEST(NativeReader, what_a_child_may_use_has_an_unknown_last_use) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_OTHER).mark(PLIMSOLL_MARK_USES, 1);
  writer.alloc(0, 1).alloc(1, 1).free(0, {1, 0}).mark(PLIMSOLL_MARK_FORK).alloc(2, 1);
  for (const std::uint64_t serial : {1, 2}) writer.encoder().last_use({serial, 1, 0});
  EXPECT_THAT(unused_from(writer.finish()), ElementsAre(3, model::kNone, 4));
}

// Observed: events 1 to 4, and 6 to 10.
TEST(NativeReader, a_last_use_before_unobserved_time_is_unknown) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_OTHER).alloc(0, 1);
  writer.mark(PLIMSOLL_MARK_USES, 1).alloc(1, 1).alloc(2, 1).alloc(3, 1).free(2, {1, 0});
  writer.mark(PLIMSOLL_MARK_USES, 0).alloc(4, 1);
  writer.mark(PLIMSOLL_MARK_USES, 1).alloc(5, 1).free(4, {1, 0}).alloc(6, 1).alloc(7, 1);
  writer.free(5, {1 + 1, 0}).mark(PLIMSOLL_MARK_USES, 0).free(6, {1, 0});
  writer.encoder().last_use({1, 1 + 6, 0});  // last used in the first span
  writer.encoder().last_use({3, 1 + 1, 0});  // in the second span, but live after it
  // 2 and 5 were freed in the span of their last use, 4 was used in the span in which it was freed.
  // 6 was freed after its span.
  EXPECT_THAT(unused_from(writer.finish()), ElementsAre(model::kNone, model::kNone, 5, model::kNone,
                                                        8, 9, model::kNone, model::kNone));
}

TEST(NativeReader, memory_that_only_a_later_span_uses_has_a_known_last_use) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_OTHER).mark(PLIMSOLL_MARK_USES, 1).alloc(0, 1).alloc(1, 1);
  writer.mark(PLIMSOLL_MARK_USES, 0).alloc(2, 1).mark(PLIMSOLL_MARK_USES, 1).alloc(3, 1);
  writer.alloc(4, 1).encoder().last_use({0, 1 + 1, 0});  // observed until the end
  writer.encoder().last_use({1, 1 + 3, 0});
  EXPECT_THAT(unused_from(writer.finish()),
              ElementsAre(4, model::kNone, model::kNone, model::kNone, model::kNone));
}

// The table that a program reads in steps that are not observed, one of which has the peak.
TEST(NativeReader, memory_that_is_read_in_unobserved_steps_is_unknown) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_OTHER).mark(PLIMSOLL_MARK_USES, 1).alloc(0, 1);
  std::uint64_t serial = 1;
  for (const bool is_on : {true, false, true, false, true, false}) {
    writer.mark(PLIMSOLL_MARK_USES, is_on ? 1 : 0).alloc(serial, 1).free(serial, {1, 0});
    ++serial;
  }
  writer.free(0, {static_cast<std::uint32_t>(serial), 0});
  EXPECT_EQ(unused_from(writer.finish()).front(), model::kNone);
}

// Writes the allocations 0 to 7 in blocks of two, and frees each two later, with a known last use.
// `cut` is the number of a block that the file lacks.
Read read_without_block(std::size_t cut, bool observes_again = false) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_OTHER).mark(PLIMSOLL_MARK_USES, 1).encoder().flush();
  const std::size_t first = writer.file().blocks().size();
  for (std::uint64_t serial = 0; serial < 8; ++serial) {
    writer.alloc(serial, 1);
    if (serial >= 2) writer.free(serial - 2, {1 + 1, 0});
    if (serial % 2 == 1) writer.encoder().flush();
    if (serial == 5 && observes_again) writer.mark(PLIMSOLL_MARK_USES, 1);
  }
  writer.encoder().last_use({7, 1, 0});
  writer.encoder().finish(1'000'000'000);
  std::vector<std::byte> bytes = writer.file().bytes();
  if (cut < 4) {
    const auto& blocks = writer.file().blocks();
    bytes[blocks.at(first + cut).offset + format::kBlockHeadBytes] ^= std::byte{1};
  }
  return read(bytes);
}

TEST(NativeReader, after_a_damaged_block_last_uses_are_unknown_until_observation_begins) {
  constexpr std::uint32_t kUnknown = model::kNone;
  // Without damage, each is used until the allocation before its free, and 7 until the end.
  EXPECT_THAT(unused_from(read_without_block(9)), ElementsAre(2, 4, 6, 8, 10, 12, kUnknown, 14));
  // The second block had the frees of 0 and 1. It may also have had the end of the observation.
  const std::vector<std::uint32_t> damaged = unused_from(read_without_block(1));
  EXPECT_THAT(damaged, ElementsAre(kUnknown, kUnknown, kUnknown, kUnknown, kUnknown, kUnknown));
  const std::vector<std::uint32_t> again = unused_from(read_without_block(1, true));
  ASSERT_EQ(again.size(), 6u);
  EXPECT_THAT(std::vector(again.begin(), again.begin() + 2), testing::Each(kUnknown));
  EXPECT_NE(again.back(), kUnknown);
}

TEST(NativeReader, ages_that_reach_over_dropped_events_are_unknown) {
  Writer writer;
  writer.site(1, PLIMSOLL_PHASE_OTHER).mark(PLIMSOLL_MARK_USES, 1);
  writer.alloc(0, 1).alloc(1, 1).encoder().dropped({2'000'000, 1, 3});
  writer.alloc(2, 1).free(0, {1 + 2, 0}).free(1, {1 + 1, 0});
  EXPECT_THAT(unused_from(writer.finish()), ElementsAre(model::kNone, 2, model::kNone));
}

// What is stored for a span, and compared for an allocation, is independent of the number of spans.
TEST(NativeReader, many_observed_spans_take_no_memory) {
  DeviceTables tables;
  LastUses uses(tables);
  for (int i = 0; i < 100'000; ++i) {
    uses.observe(i % 2 == 0);
    uses.fork();
  }
  EXPECT_EQ(uses.memory_bytes(), LastUses(tables).memory_bytes());
}

TEST(NativeReader, separates_alternating_devices) {
  Writer writer;
  writer.encoder().define_device(0, {PLIMSOLL_DEVICE_CPU, 0});
  writer.encoder().define_device(1, {PLIMSOLL_DEVICE_CUDA, 1});
  writer.encoder().define_device(2, {PLIMSOLL_DEVICE_PINNED_HOST, 0});
  writer.site(1, 0, 0).site(2, 0, 1).site(3, 0, 2);
  writer.alloc(0, 1, 10).alloc(1, 2, 20).alloc(2, 3, 40).alloc(3, 1, 80).free(1).alloc(4, 2, 160);
  const Read read = writer.finish();
  std::map<std::string, std::uint64_t> live;
  for (const auto& device : read.trace.devices) {
    for (const auto row : live_set(device, model::Liveness::kAllocated,
                                   static_cast<std::int64_t>(device.events.size()))) {
      live[to_string(device.device)] += read.trace.size_bytes(device, row);
    }
  }
  EXPECT_EQ(live, (std::map<std::string, std::uint64_t>{
                      {"cpu", 90}, {"cuda:1", 160}, {"pinned_host", 40}}));
}

TEST(NativeReader, reports_what_is_missing) {
  Writer killed;
  killed.site(1, 0).alloc(0, 1);
  EXPECT_EQ(killed.kill().diagnostics.count(kFileCut), 1u);

  Writer lossy;
  lossy.site(1, 0).alloc(0, 1).free(0).free(0).free(77).alloc(1, 99);
  lossy.encoder().free({5'000'000, 1, format::kNoSerial, 0x1234, false});
  lossy.encoder().dropped({5'000'000, 1, 12});
  lossy.encoder().evicted({34});
  lossy.encoder().meta("adapter", "python");
  const Read read = lossy.finish();
  EXPECT_EQ(read.diagnostics.count(kFileCut), 0u);
  EXPECT_EQ(read.diagnostics.count(kUnseenFree), 3u);
  EXPECT_EQ(read.diagnostics.count(kUndefined), 1u);
  EXPECT_EQ(read.diagnostics.count(kDroppedEvents), 12u);
  EXPECT_EQ(read.diagnostics.count(kEvictedEvents), 34u);
  EXPECT_EQ(read.diagnostics.count(kPythonAdapter), 1u);
  EXPECT_EQ(read.trace.devices[0].history, model::History::kTruncated);

  EXPECT_EQ(Writer().finish().diagnostics.count(kNoEvents), 1u);
}

TEST(NativeReader, reports_how_much_is_missing_at_the_end) {
  using format::FileState;
  using format::RecordingState;
  const auto example = [](const Read& read, const base::DiagnosticKind& kind) -> std::string {
    for (const base::Diagnostic& each : read.diagnostics.all()) {
      if (each.kind == &kind) return each.first_example;
    }
    return "none";
  };
  const auto left = [](const FileState& state) {
    Writer writer;
    writer.state(state).site(1, 0).alloc(0, 1).alloc(1, 1);
    return writer.kill();
  };
  constexpr std::int64_t kStart = Writer::kStartNs;

  Read got = left({.time_ns = kStart + 12'300'000'000,
                   .written_until_ns = kStart + 12'300'000'000,
                   .events = 2,
                   .longest_wait_ns = 139'000'000});
  EXPECT_EQ(example(got, kFileCut),
            "Everything until 12.3 s after the start is in the file. Events took at most 139.0 ms "
            "to get there, so a kill lost about that much at the end");

  got = left({.state = RecordingState::kFailed,
              .error = 28,
              .time_ns = kStart + 60'000'000'000,
              .written_until_ns = kStart + 300'000'000,
              .events = 622'599,
              .missing = 622'597});
  EXPECT_EQ(got.diagnostics.count(kFileCut), 0u);
  EXPECT_EQ(got.diagnostics.count(kSinkFailed), 622'597u);
  EXPECT_EQ(
      example(got, kSinkFailed),
      "No space left on device, 300.0 ms after the start; 622,597 of 622,599 records missing, "
      "of those recorded until 60.0 s after the start");

  got = left({.state = RecordingState::kEnded, .events = 9});
  EXPECT_EQ(example(got, kFileTruncated), "7 of 9 records missing");
  got = left({.events = 9});
  EXPECT_EQ(example(got, kFileTruncated), "7 of 9 records missing");

  Writer old;  // a version 2 file, or a stream
  old.site(1, 0).alloc(0, 1);
  EXPECT_EQ(example(old.kill(), kFileCut), "How much is missing at the end is unknown");
  Writer ended;
  ended.state({.events = 1}).site(1, 0).alloc(0, 1);
  EXPECT_EQ(example(ended.finish(), kFileCut), "none");
}

TEST(NativeReader, reports_that_nothing_was_allocated_only_if_the_recording_ended) {
  EXPECT_EQ(Writer().finish().diagnostics.count(kNoEvents), 1u);
  const Read killed = Writer().kill();
  EXPECT_EQ(killed.diagnostics.count(kNoEvents), 0u);
  EXPECT_EQ(killed.diagnostics.count(kNoEventsWritten), 1u);
}

TEST(NativeReader, reports_out_of_memory_events) {
  Writer writer;
  writer.site(1, 0).alloc(0, 1).mark(PLIMSOLL_MARK_OUT_OF_MEMORY, 1 << 30);
  const Read read = writer.finish();
  ASSERT_EQ(read.trace.event_count(), 2u);
  EXPECT_EQ(read.trace.devices.at(0).events.action[1], Action::kOom);
  EXPECT_EQ(read.trace.devices.at(0).events.size_bytes[1], 1u << 30);
}

TEST(NativeReader, rejects_what_it_cannot_read) {
  std::vector<std::byte> bytes = TraceFile().bytes();
  bytes[10] = std::byte{9};
  format::write_prelude(bytes.data(), {9, 9});
  const Read later = read(bytes);
  EXPECT_EQ(later.status.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(later.status.error().message, HasSubstr("version 9"));
}

TEST(NativeReader, does_not_allocate_memory_that_a_few_bytes_request) {
  Writer writer;
  writer.encoder().define_name(UINT32_MAX, "far");
  writer.encoder().define_site(UINT32_MAX, {});
  writer.encoder().define_stack(1, std::vector<format::Frame>(255));
  for (std::uint32_t id = 2; id < 50'000; ++id) {
    writer.encoder().define_stack(id, std::vector<format::Frame>(255));
  }
  const Read read = writer.finish();
  EXPECT_TRUE(read.status.ok());
  EXPECT_EQ(read.diagnostics.count(kBadDefinition), 2u);
}

// ---- compared with an obvious reference -------------------------------------------------------

// The state after the events, kept in maps.
struct Reference {
  explicit Reference(const RandomRecording& recording) {
    for (const AnyEvent& event : recording.events()) {
      if (const auto* alloc = std::get_if<format::Alloc>(&event)) {
        const format::Site& site = recording.sites()[alloc->site];
        all[alloc->serial] = {*alloc, site.phase, site.device, {}, false, false, false, false};
        live_bytes[site.device] += alloc->size_bytes;
        born_since_mark.insert(alloc->serial);
        born_in_step.insert(alloc->serial);
      } else if (const auto* free = std::get_if<format::Free>(&event)) {
        Fate& fate = all[free->serial];
        fate.is_freed = true;
        fate.in_op = free->in_op;
        fate.in_step = born_in_step.erase(free->serial) != 0;
        live_bytes[fate.device] -= fate.alloc.size_bytes;
        born_since_mark.erase(free->serial);
      } else if (const auto* tag = std::get_if<format::Tag>(&event)) {
        all[tag->serial].roles.insert(recording.tensors()[tag->tensor].role);
      } else if (const auto* set = std::get_if<format::SetPhase>(&event)) {
        all[set->serial].phase = set->phase;
        all[set->serial].has_own_phase = true;
      } else if (const auto* mark = std::get_if<format::Mark>(&event)) {
        note(*mark);
      }
      for (const auto& [device, bytes] : live_bytes) {
        peak_bytes[device] = std::max(peak_bytes[device], bytes);
      }
    }
  }

  void note(const format::Mark& mark) {
    if (mark.kind == PLIMSOLL_MARK_STEP) born_in_step.clear();
    if (mark.kind != PLIMSOLL_MARK_BACKWARD_BEGIN) return;
    for (const std::uint64_t serial : born_since_mark) all[serial].at_backward = true;
    born_since_mark.clear();
  }

  struct Fate {
    format::Alloc alloc;
    std::uint8_t phase;
    std::uint8_t device;
    std::set<int> roles;
    bool is_freed, in_op, in_step, at_backward, has_own_phase = false;

    std::string category() const {
      const char* const words[] = {"parameter", "gradient", "optimizer_state",
                                   "buffer",    "input",    "workspace"};
      for (int role = 1; role <= 6; ++role) {
        if (roles.count(role) != 0) return words[role - 1];
      }
      if (alloc.is_adopted && !has_own_phase) return "unknown";
      if (in_op) return "temporary";
      if (phase == 1) return "activation";
      if (phase == 2) return "activation_gradient";
      return phase == 3 && in_step ? "optimizer_scratch" : "other";
    }
    std::string text() const {
      const bool is_saved = at_backward && category() == "activation";
      return category() + " " + std::to_string(phase) + " " + std::to_string(alloc.size_bytes) +
             (is_saved ? " saved" : "") + (is_freed ? " freed" : "");
    }
  };
  std::map<std::uint64_t, Fate> all;  // by serial
  std::map<std::uint8_t, std::uint64_t> live_bytes, peak_bytes;
  std::set<std::uint64_t> born_since_mark, born_in_step;
};

TEST(NativeReader, matches_an_obvious_reference) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    RandomRecording recording(seed, 3'000);
    const TraceFile file = recording.file();
    const Read read = native::read(file.bytes());
    ASSERT_TRUE(read.status.ok());
    const Reference reference(recording);
    ASSERT_EQ(read.trace.devices.size(), RandomRecording::kDevices);
    for (std::uint8_t id = 0; id < RandomRecording::kDevices; ++id) {
      const model::Device wanted = id == 0 ? model::Device{model::DeviceType::kCpu, -1}
                                           : model::Device{model::DeviceType::kCuda, id - 1};
      const auto device =
          std::ranges::find(read.trace.devices, wanted, &model::DeviceTrace::device);
      ASSERT_NE(device, read.trace.devices.end());
      std::multiset<std::string> expected, found;
      for (const auto& [serial, fate] : reference.all) {
        if (fate.device == id) expected.insert(fate.text());
      }
      std::uint64_t now = 0, peak = 0;
      const model::Events& events = device->events;
      for (std::size_t row = 0; row < events.size(); ++row) {
        const bool is_alloc = events.action[row] == Action::kAlloc;
        now += is_alloc ? events.size_bytes[row] : 0 - events.size_bytes[row];
        peak = std::max(peak, now);
      }
      for (std::size_t life = 0; life < device->lifetimes.size(); ++life) {
        const std::size_t row = device->lifetimes.alloc[life];
        const model::Event event = read.trace.event(*device, row);
        const bool is_saved = has(device->lifetimes.flags[life], LifetimeFlags::kSavedForBackward);
        const bool is_freed = device->lifetimes.free_completed[life] != model::kNone;
        found.insert(std::string(read.text(read.trace.category(*device, life))) + " " +
                     std::to_string(static_cast<int>(event.phase)) + " " +
                     std::to_string(event.size_bytes) + (is_saved ? " saved" : "") +
                     (is_freed ? " freed" : ""));
      }
      EXPECT_EQ(found, expected);
      EXPECT_EQ(now, reference.live_bytes.at(id));
      EXPECT_EQ(peak, reference.peak_bytes.at(id));
    }
    EXPECT_EQ(read.diagnostics.count(kFileCut), 0u);
  }
}

TEST(NativeReader, reads_the_same_in_pieces_of_any_size) {
  const TraceFile file = RandomRecording(1, 3'000).file();
  const Read whole = read(file.bytes());
  for (const std::size_t piece : {1U, 7U, 4096U, 10'000U}) {
    EXPECT_EQ(tests::TraceDifference::of(whole.trace, read(file.bytes(), piece).trace), "");
  }
}

TEST(NativeReader, reads_every_prefix) {
  const TraceFile file = RandomRecording(2, 60).file();
  for (std::size_t size = format::kMagic.size(); size < file.bytes().size(); ++size) {
    const Read part = read(std::span(file.bytes()).first(size));
    EXPECT_TRUE(part.status.ok()) << size;
    EXPECT_EQ(part.diagnostics.count(kFileCut), 1u) << size;
    EXPECT_EQ(part.diagnostics.count(kUnseenFree), 0u) << size;
    EXPECT_EQ(part.diagnostics.count(kUndefined), 0u) << size;
  }
}

TEST(NativeReader, reports_a_flipped_bit_anywhere) {
  const TraceFile file = RandomRecording(3, 60).file();
  for (std::size_t bit = format::kMagic.size() * 8; bit < file.bytes().size() * 8; ++bit) {
    std::vector<std::byte> bytes = file.bytes();
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    const Read damaged = read(bytes);
    ASSERT_TRUE(damaged.status.ok()) << bit;
    EXPECT_EQ(damaged.diagnostics.count(kCorruptBlock) + damaged.diagnostics.count(kCorruptHead),
              1u)
        << bit;
  }
}

}  // namespace
}  // namespace plimsoll::readers::native

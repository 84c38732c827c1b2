#include "readers/kineto/kineto_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "readers/kineto/diagnostics.h"
#include "tests/support/samples.h"

namespace plimsoll::readers::kineto {
namespace {

struct Outcome {
  Result<model::Trace> trace = make_error(ErrorCode::kInternal, "not read");
  base::Diagnostics diagnostics;

  std::uint64_t count(const base::DiagnosticKind& kind) const { return diagnostics.count(kind); }
};

Outcome read(ByteSource& source, Limits limits = {}) {
  Outcome outcome;
  base::Progress progress;
  model::TraceBuilder builder(outcome.diagnostics);
  ReadContext context{builder, outcome.diagnostics, progress, limits};
  if (Status status = make()->read(source, context); !status) {
    outcome.trace = std::move(status).error();
  } else {
    outcome.trace = builder.finish("kineto", progress);
  }
  return outcome;
}

Outcome read(std::string_view json, std::size_t piece = SIZE_MAX, Limits limits = {}) {
  const auto source = view_memory(std::as_bytes(std::span(json)), piece);
  return read(*source, limits);
}

// A trace of these events, in the current layout.
std::string trace_of(std::string_view events) {
  return R"({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [)" + std::string(events) +
         R"(], "traceName": "t.json"})";
}

// One line per event: action, size, time, stack innermost first, operator and layer.
std::string describe(const model::Trace& trace) {
  std::ostringstream out;
  for (const model::DeviceTrace& device : trace.devices) {
    out << to_string(device.device) << "\n";
    for (std::size_t i = 0; i < device.events.size(); ++i) {
      const model::Event event = trace.event(device, i);
      out << "  " << to_string(event.action) << " " << event.size_bytes << " @" << event.time_ns;
      for (const model::FrameId id : trace.stacks.frames(event.stack)) {
        const model::Frame& frame = trace.stacks.frame(id);
        out << " | " << trace.strings[frame.file];
        if (frame.line == model::kUnknownLine)
          out << ":? ";
        else if (frame.line != 0)
          out << ":" << frame.line << " ";
        out << trace.strings[frame.function];
      }
      if (event.op != model::StringId{}) out << " op=" << trace.strings[event.op];
      if (event.layer != model::StringId{}) out << " layer=" << trace.strings[event.layer];
      out << "\n";
    }
  }
  return out.str();
}

std::string describe(const Outcome& outcome) {
  return outcome.trace ? describe(*outcome.trace) : "error: " + outcome.trace.error().message;
}

std::string memory(std::string_view ts, std::string_view args, std::string_view tid = "1") {
  return R"({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1, "tid": )" +
         std::string(tid) + R"(, "ts": )" + std::string(ts) + R"(, "args": {)" + std::string(args) +
         "}}";
}

std::string cuda(std::string_view ts, int bytes, int address, int allocated, int reserved) {
  return memory(ts, R"("Total Reserved": )" + std::to_string(reserved) +
                        R"(, "Total Allocated": )" + std::to_string(allocated) + R"(, "Bytes": )" +
                        std::to_string(bytes) + R"(, "Addr": )" + std::to_string(address) +
                        R"(, "Device Id": 0, "Device Type": 1)");
}

std::string span(std::string_view category, std::string_view name, int ts, int dur,
                 std::string_view tid = "1", std::string_view args = "") {
  return R"({"ph": "X", "cat": ")" + std::string(category) + R"(", "name": ")" + std::string(name) +
         R"(", "pid": 1, "tid": )" + std::string(tid) + R"(, "ts": )" + std::to_string(ts) +
         R"(, "dur": )" + std::to_string(dur) + R"(, "args": {)" + std::string(args) + "}}";
}

constexpr const char* kCpu4 = R"("Device Type": 0, "Device Id": -1, "Bytes": 4)";

const std::string kSmallStep =
    trace_of(span("python_function", "train.py(7): main", 0, 100) + "," +
             span("python_function", "nn.Module: Net_0", 5, 60) + "," +
             span("python_function", "nn.Module: Linear_3", 10, 40) + "," +
             span("python_function", "torch/nn/modules/linear.py(124): forward", 11, 30) + "," +
             span("cpu_op", "aten::linear", 12, 20) + "," + span("cpu_op", "aten::empty", 13, 5) +
             "," + span("user_annotation", "ProfilerStep#3", 1, 90) + "," +
             cuda("14.125", 512, 100, 1536, 4096) + "," + cuda("200", -512, 100, 1024, 4096));

TEST(KinetoReader, an_allocation_has_its_enclosing_stack_operator_and_module) {
  EXPECT_EQ(describe(read(kSmallStep)),
            "cuda:0\n"
            "  alloc 512 @14125 | aten::empty | aten::linear"
            " | torch/nn/modules/linear.py:124 forward | train.py:7 main"
            " op=aten::linear layer=Net_0.Linear_3\n"
            "  free_requested 512 @200000\n"
            "  free_completed 512 @200000\n");
}

TEST(KinetoReader, a_function_open_when_profiling_began_has_no_line_but_the_operator) {
  const std::string step = trace_of(
      span("python_function", "train.py(30): <module>", 0, 100) + "," +
      span("python_function", "train.py(15): train", 1, 98) + "," +
      span("python_function", "torch/profiler/profiler.py(1227): step", 2, 3) + "," +
      span("python_function", "torch/autograd/profiler.py(414): _start_trace", 3, 1) + "," +
      span("cpu_op", "aten::linear", 12, 20) + "," + cuda("14.125", 512, 100, 1536, 4096) + "," +
      span("python_function", "model.py(4): loss", 40, 20) + "," +
      span("cpu_op", "aten::mean", 42, 10) + "," + cuda("45", 512, 612, 2048, 4096));
  const Outcome outcome = read(step);
  EXPECT_EQ(
      describe(outcome),
      "cuda:0\n"
      "  alloc 512 @14125 | aten::linear | train.py:? train: aten::linear | train.py:? <module>"
      " op=aten::linear\n"
      "  alloc 512 @45000 | aten::mean | model.py:4 loss | train.py:? train | train.py:? <module>"
      " op=aten::mean\n");
  EXPECT_EQ(outcome.count(kOpenFunctions), 1u);
}

TEST(KinetoReader, any_chunking_gives_the_same_trace) {
  const std::string whole = describe(read(kSmallStep));
  for (const std::size_t piece : {1u, 7u, 4096u})
    EXPECT_EQ(describe(read(kSmallStep, piece)), whole);
}

TEST(KinetoReader, the_totals_determine_the_memory_live_before) {
  const Outcome outcome = read(kSmallStep);
  ASSERT_TRUE(outcome.trace.ok());
  EXPECT_EQ(outcome.trace->devices[0].allocated_before_bytes, 1024u);
  EXPECT_EQ(outcome.trace->devices[0].reserved_before_bytes, 4096u);
  EXPECT_EQ(outcome.count(kTotalsDisagree), 0u);
  EXPECT_EQ(outcome.count(kBlockSizes), 1u);
  EXPECT_EQ(outcome.count(kFunctionLines), 1u);
}

TEST(KinetoReader, annotations_keep_their_begin_and_end) {
  const Outcome outcome = read(kSmallStep);
  ASSERT_TRUE(outcome.trace.ok());
  ASSERT_EQ(outcome.trace->annotations.size(), 1u);
  const model::Annotation& step = outcome.trace->annotations[0];
  EXPECT_EQ(outcome.trace->strings[step.name], "ProfilerStep#3");
  EXPECT_EQ(step.begin_ns, 1000);
  EXPECT_EQ(step.end_ns, 91000);
  EXPECT_EQ(to_string(step.device), "cuda:0");
}

TEST(KinetoReader, the_rank_and_the_number_of_ranks_are_those_of_the_distributed_run) {
  const auto read_with = [](const std::string& distributed) {
    return read(R"({"schemaVersion": 1, "distributedInfo": )" + distributed +
                R"(, "host_name": "node1", "rank": 7, "traceEvents": [)" +
                memory("1", R"("Device Type": 0, "Addr": 1, "Bytes": 8)") + "]}");
  };
  const Outcome outcome = read_with(R"({"rank": 3, "pg_config": [{"rank": 9}], "world_size": 16})");
  ASSERT_TRUE(outcome.trace) << outcome.trace.error().message;
  EXPECT_EQ(outcome.trace->rank, 3);
  EXPECT_EQ(outcome.trace->world_size, 16);
  EXPECT_EQ(outcome.trace->program.host, "node1");
  for (const char* const none :
       {R"({"rank": 0, "world_size": 1})", R"({"rank": 4, "world_size": 4})", R"([3, 16])"}) {
    const Outcome other = read_with(none);
    ASSERT_TRUE(other.trace) << other.trace.error().message;
    EXPECT_FALSE(other.trace->rank) << none;
    EXPECT_FALSE(other.trace->world_size) << none;
  }
}

TEST(KinetoReader, the_array_form_is_read_too) {
  EXPECT_EQ(describe(read("[" + cuda("1", 512, 7, 512, 1024) + "]")),
            "cuda:0\n  alloc 512 @1000\n");
}

TEST(KinetoReader, events_are_sorted_by_time_and_ties_keep_file_order) {
  EXPECT_EQ(describe(read(trace_of(cuda("9", -512, 7, 0, 0) + "," + cuda("5", 512, 7, 512, 0) +
                                   "," + cuda("9", 64, 8, 64, 0)))),
            "cuda:0\n"
            "  alloc 512 @5000\n"
            "  free_requested 512 @9000\n"
            "  free_completed 512 @9000\n"
            "  alloc 64 @9000\n");
}

TEST(KinetoReader, changes_of_the_reserved_total_become_segments) {
  const Outcome outcome =
      read(trace_of(cuda("1", 512, 7, 512, 1024) + "," + cuda("2", 2048, 8, 2560, 4096) + "," +
                    cuda("3", -512, 7, 2048, 3072)));
  EXPECT_EQ(describe(outcome),
            "cuda:0\n"
            "  alloc 512 @1000\n"
            "  segment_alloc 3072 @2000\n"
            "  alloc 2048 @2000\n"
            "  free_requested 512 @3000\n"
            "  free_completed 512 @3000\n"
            "  segment_free 1024 @3000\n");
  EXPECT_EQ(outcome.count(kSyntheticSegments), 2u);
}

TEST(KinetoReader, a_sum_that_differs_from_the_reported_total_is_counted_once) {
  const Outcome outcome =
      read(trace_of(cuda("1", 512, 7, 512, 0) + "," + cuda("2", 512, 8, 2048, 0) + "," +
                    cuda("3", 512, 9, 2560, 0)));
  EXPECT_EQ(outcome.count(kTotalsDisagree), 1u);
}

TEST(KinetoReader, a_failed_request_changes_no_total_and_has_its_site) {
  std::string failed = cuda("5", 1 << 20, 0, 512, 2048);
  failed.replace(failed.find("[memory]"), 8, "[OutOfMemory]");
  const Outcome outcome =
      read(trace_of(span("cpu_op", "aten::empty", 4, 5) + "," + cuda("1", 512, 7, 512, 4096) + "," +
                    failed + "," + cuda("9", 8, 9, 520, 2048)));
  EXPECT_EQ(describe(outcome),
            "cuda:0\n"
            "  alloc 512 @1000\n"
            "  segment_free 2048 @5000\n"
            "  oom 1048576 @5000 | aten::empty op=aten::empty\n"
            "  alloc 8 @9000 | aten::empty op=aten::empty\n");
  EXPECT_EQ(outcome.count(kTotalsDisagree), 0u);
  EXPECT_EQ(outcome.count(kDriverFreeUnknown), 1u);
}

TEST(KinetoReader, memory_live_before_is_at_least_what_is_freed) {
  const Outcome lost = read(trace_of(cuda("1", 512, 7, 512, 0) + "," + cuda("2", -900, 8, 0, 0)));
  ASSERT_TRUE(lost.trace.ok());
  EXPECT_EQ(lost.trace->devices[0].allocated_before_bytes, 900u);
  EXPECT_EQ(lost.count(kTotalsDisagree), 1u);
  const Outcome grown = read(trace_of(cuda("1", 8, 7, 8, 0) + "," + cuda("2", -900, 7, 0, 0)));
  ASSERT_TRUE(grown.trace.ok());
  EXPECT_EQ(grown.trace->devices[0].allocated_before_bytes, 892u);
}

TEST(KinetoReader, every_kind_of_device_has_its_own_events) {
  auto on = [](int type, int id) {
    return memory("1", R"("Bytes": 8, "Addr": 1, "Device Type": )" + std::to_string(type) +
                           R"(, "Device Id": )" + std::to_string(id));
  };
  const Outcome outcome =
      read(trace_of(on(6, 1) + "," + on(0, -1) + "," + on(1, 0) + "," + on(12, 2)));
  ASSERT_TRUE(outcome.trace.ok());
  std::vector<std::string> devices;
  for (const auto& device : outcome.trace->devices) devices.push_back(to_string(device.device));
  EXPECT_EQ(devices, (std::vector<std::string>{"cuda:0", "hip:1", "xpu:2", "cpu"}));
}

TEST(KinetoReader, without_addresses_a_free_ends_the_latest_allocation_of_its_size) {
  const Outcome outcome =
      read(trace_of(memory("1", kCpu4) + "," + memory("2", kCpu4) + "," +
                    memory("3", R"("Device Type": 0, "Device Id": -1, "Bytes": -4)") + "," +
                    memory("4", R"("Device Type": 0, "Device Id": -1, "Bytes": -16)")));
  ASSERT_TRUE(outcome.trace.ok());
  const auto& lifetimes = outcome.trace->devices[0].lifetimes;
  ASSERT_EQ(lifetimes.size(), 3u);
  EXPECT_EQ(lifetimes.baseline_count, 1u);  // the free of 16
  EXPECT_EQ(lifetimes.free_requested[1], model::kNone);
  EXPECT_EQ(lifetimes.alloc[2], 1u);
  EXPECT_EQ(lifetimes.free_requested[2], 2u);
  EXPECT_EQ(outcome.count(kNoAddresses), 2u);
  EXPECT_EQ(outcome.count(kNoTotals), 1u);
  EXPECT_EQ(outcome.trace->devices[0].allocated_before_bytes, 16u);
}

TEST(KinetoReader, operators_of_2021_carry_the_stack_and_their_thread_as_a_string) {
  const std::string stack =
      R"("Call stack": "a/site-packages/torch/nn/functional.py(22): relu;net.py(5): <module>")";
  const Outcome outcome = read(trace_of(span("Operator", "aten::relu", 1, 5, "\"1\"", stack) + "," +
                                        span("Operator", "Optimizer.step#SGD.step", 0, 9, "\"1\"") +
                                        "," + memory("3", kCpu4)));
  EXPECT_EQ(describe(outcome),
            "cpu\n"
            "  alloc 4 @3000 | aten::relu | a/site-packages/torch/nn/functional.py:22 relu"
            " | net.py:5 <module> op=aten::relu\n");
  ASSERT_EQ(outcome.trace->annotations.size(), 1u);
}

TEST(KinetoReader, backward_has_the_line_and_module_of_its_forward_operator) {
  const Outcome outcome = read(trace_of(
      span("python_function", "nn.Module: Net_0", 0, 20) + "," +
      span("python_function", "net.py(9): forward", 1, 18) + "," +
      span("cpu_op", "aten::mul", 2, 3, "1", R"("Sequence number": 5, "Fwd thread id": 0)") + "," +
      span("python_function", "train.py(3): step", 30, 60) + "," +
      span("cpu_op", "autograd::engine::evaluate_function: MulBackward0", 40, 20, "2",
           R"("Sequence number": 5, "Fwd thread id": 1)") +
      "," + span("cpu_op", "aten::mul", 42, 9, "2") + "," + memory("43", kCpu4, "2")));
  EXPECT_EQ(describe(outcome),
            "cpu\n  alloc 4 @43000 | aten::mul | MulBackward0 | net.py:9 forward"
            " op=MulBackward0 layer=Net_0\n");
  EXPECT_EQ(outcome.count(kChargedToForward), 1u);
}

TEST(KinetoReader, backward_on_the_thread_of_the_forward_has_its_line_too) {
  const std::string before =
      span("python_function", "nn.Module: Net_0", 0, 20) + "," +
      span("python_function", "net.py(9): forward", 1, 18) + "," +
      span("cpu_op", "aten::mul", 2, 3, "1", R"("Sequence number": 5, "Fwd thread id": 0)") + "," +
      span("python_function", "train.py(3): backward", 30, 60) + "," +
      span("cpu_op", "MulBackward0", 40, 20, "1", R"("Sequence number": 5, "Fwd thread id": 1)");
  EXPECT_EQ(describe(read(trace_of(before + "," + memory("43", kCpu4)))),
            "cpu\n  alloc 4 @43000 | MulBackward0 | net.py:9 forward"
            " op=MulBackward0 layer=Net_0\n");
  // Python that runs inside the node, such as a custom backward or a checkpoint, is more specific.
  const Outcome own =
      read(trace_of(before + "," + span("python_function", "net.py(30): backward", 42, 5) + "," +
                    memory("43", kCpu4)));
  EXPECT_EQ(describe(own),
            "cpu\n  alloc 4 @43000 | net.py:30 backward | MulBackward0 | train.py:3 backward"
            " op=MulBackward0\n");
  EXPECT_EQ(own.count(kChargedToForward), 0u);
}

TEST(KinetoReader, a_thread_without_python_uses_the_only_python_thread) {
  const Outcome outcome = read(
      trace_of(span("python_function", "train.py(3): backward", 0, 50) + "," +
               span("python_function", "threading.py(9): wait", 0, 99, "0") + "," +
               span("cpu_op", "aten::ones_like", 10, 5, "2") + "," + memory("11", kCpu4, "2")));
  EXPECT_EQ(describe(outcome),
            "cpu\n  alloc 4 @11000 | aten::ones_like | train.py:3 backward op=aten::ones_like\n");
  EXPECT_EQ(outcome.count(kPythonOfOtherThread), 1u);
}

TEST(KinetoReader, crossing_spans_do_not_lose_each_other) {
  // An operator entered in a call of __enter__ outlives that call.
  const Outcome outcome =
      read(trace_of(span("python_function", "a.py(1): f", 0, 100) + "," +
                    span("python_function", "b.py(2): __enter__", 10, 5) + "," +
                    span("cpu_op", "Pregraph bytecode", 12, 40) + "," + memory("30", kCpu4)));
  EXPECT_EQ(describe(outcome),
            "cpu\n  alloc 4 @30000 | Pregraph bytecode | a.py:1 f op=Pregraph bytecode\n");
}

TEST(KinetoReader, addresses_in_names_of_builtins_are_removed) {
  const Outcome outcome = read(trace_of(
      span("python_function", "<built-in method dim of Tensor object at 0x74956e48f0c0>", 0, 9) +
      "," + memory("3", kCpu4)));
  EXPECT_EQ(describe(outcome), "cpu\n  alloc 4 @3000 | <built-in method dim of Tensor object>\n");
}

TEST(KinetoReader, a_trace_without_memory_events_is_reported) {
  const Outcome outcome = read(trace_of(span("cpu_op", "aten::mul", 0, 5)));
  ASSERT_TRUE(outcome.trace.ok());
  EXPECT_EQ(outcome.trace->event_count(), 0u);
  EXPECT_EQ(outcome.count(kNoMemoryEvents), 1u);
}

TEST(KinetoReader, events_without_time_size_or_device_are_counted_and_skipped) {
  const Outcome outcome = read(
      trace_of(memory("\"soon\"", kCpu4) + "," + memory("1", R"("Device Type": 0)") + "," +
               memory("1", R"("Bytes": 4)") + "," + memory("1", R"("Device Type": 0, "Bytes": 0)") +
               "," + memory("1", R"("Device Type": 0, "Bytes": "8")")));
  EXPECT_EQ(describe(outcome), "cpu\n  alloc 8 @1000\n");
  EXPECT_EQ(outcome.count(kBadMemoryEvent), 3u);
  EXPECT_EQ(outcome.count(kZeroBytes), 1u);
}

TEST(KinetoReader, several_processes_on_one_device_are_reported) {
  std::string other = cuda("2", 512, 8, 512, 0);
  other.replace(other.find(R"("pid": 1)"), 8, R"("pid": 2)");
  EXPECT_EQ(read(trace_of(cuda("1", 512, 7, 512, 0) + "," + other)).count(kSeveralProcesses), 1u);
}

TEST(KinetoReader, a_file_truncated_at_any_byte_is_an_error_or_reports_the_loss) {
  const std::size_t first_event_ends = kSmallStep.find(']', kSmallStep.find("14.125"));
  for (std::size_t size = 0; size < kSmallStep.size(); ++size) {
    const Outcome outcome = read(std::string_view(kSmallStep).substr(0, size));
    if (!outcome.trace) {
      EXPECT_EQ(outcome.trace.error().code, ErrorCode::kCorrupt) << size;
      EXPECT_LT(size, first_event_ends);
    } else {
      EXPECT_EQ(outcome.count(kCutOff), 1u) << size;
    }
  }
}

TEST(KinetoReader, broken_json_is_reported_with_its_offset) {
  const Outcome outcome = read(R"({"traceEvents": [{"ph": !}]})");
  ASSERT_FALSE(outcome.trace.ok());
  EXPECT_EQ(outcome.trace.error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(outcome.trace.error().message, "the JSON is broken at byte 24: Invalid value.");
}

TEST(KinetoReader, broken_json_after_memory_events_is_a_loss_of_the_rest) {
  const Outcome outcome = read("[" + cuda("1", 512, 7, 512, 0) + R"(, {"name": "C:\Users"}])");
  ASSERT_TRUE(outcome.trace.ok());
  EXPECT_EQ(outcome.count(kDamagedJson), 1u);
}

TEST(KinetoReader, json_that_is_not_a_trace_is_rejected_with_a_message) {
  for (const char* json : {"{}", "[[-1, 1, 37888, 7]]", "17", R"({"cells": [{"ph": "i"}]})"}) {
    const Outcome outcome = read(json);
    ASSERT_FALSE(outcome.trace.ok()) << json;
    EXPECT_EQ(outcome.trace.error().code, ErrorCode::kUnsupported) << json;
  }
  for (const char* timeline : {"[[-1, 1, 37888, 7]]", "[[0, 5], [[1], [2]]]", "[[[1]]]"}) {
    EXPECT_THAT(read(timeline).trace.error().message, testing::HasSubstr("export_memory_timeline"));
  }
  for (const char* lists : {"[[]]", "[[[[1]]]]", R"([["a"]])", R"([[{"ph": "i"}]])"}) {
    EXPECT_THAT(read(lists).trace.error().message, testing::HasSubstr("it is a list of lists"))
        << lists;
  }
}

TEST(KinetoReader, nesting_strings_and_memory_are_limited) {
  const Outcome deep = read(std::string(100000, '['));
  EXPECT_EQ(deep.trace.error().code, ErrorCode::kUnsupported);  // a list of lists
  const Outcome deep_object = read(R"({"a": )" + std::string(100000, '['));
  EXPECT_EQ(deep_object.trace.error().code, ErrorCode::kLimit);
  const Outcome long_string = read("[\"" + std::string(70 << 20, 'x') + "\"]");
  EXPECT_EQ(long_string.trace.error().code, ErrorCode::kLimit);
  std::string many = cuda("1", 512, 7, 512, 0);
  for (int i = 0; i < 3000; ++i) many += "," + cuda("1", 512, 7, 512, 0);
  const Outcome too_many = read(trace_of(many), SIZE_MAX, Limits{.memory_bytes = 1 << 16});
  EXPECT_EQ(too_many.trace.error().code, ErrorCode::kLimit);
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += span("cpu_op", "aten::mul", i, 10000) + ",";
  const Outcome deep_stack = read(trace_of(nested + memory("6000", kCpu4)));
  ASSERT_TRUE(deep_stack.trace.ok());
  EXPECT_EQ(deep_stack.trace->stacks
                .frames(deep_stack.trace->event(deep_stack.trace->devices.at(0), 0).stack)
                .size(),
            1024u);
  std::string devices;
  for (int i = 0; i < 2000; ++i) {
    devices +=
        memory("1", R"("Bytes": 8, "Device Type": 1, "Device Id": )" + std::to_string(i)) + ",";
  }
  EXPECT_LT(read(trace_of(devices)).trace->devices.size(), 300u);
}

TEST(KinetoReader, sniffing_examines_the_content) {
  auto sniff = [](std::string_view head) { return make()->sniff(std::as_bytes(std::span(head))); };
  EXPECT_EQ(sniff(R"({"schemaVersion": 1, )"), Confidence::kCertain);
  EXPECT_EQ(sniff("\xEF\xBB\xBF\n {\"traceEvents\": ["), Confidence::kCertain);
  EXPECT_EQ(sniff(R"({"metadata": {"num_errors": 0, )"), Confidence::kMaybe);
  EXPECT_EQ(sniff(R"([ {"ph": "X")"), Confidence::kCertain);
  EXPECT_EQ(sniff("[[-1, 1, 37888"), Confidence::kMaybe);
  EXPECT_EQ(sniff("[1, 2]"), Confidence::kNo);
  EXPECT_EQ(sniff("\x80\x04\x95"), Confidence::kNo);
  EXPECT_EQ(sniff(""), Confidence::kNo);
}

TEST(KinetoReader, an_interrupt_stops_it) {
  base::Diagnostics diagnostics;
  base::Progress progress;
  progress.interrupt();
  model::TraceBuilder builder(diagnostics);
  ReadContext context{builder, diagnostics, progress, {}};
  const auto source = view_memory(std::as_bytes(std::span(kSmallStep)));
  const Status status = make()->read(*source, context);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(const_cast<Status&>(status).error().code, ErrorCode::kInterrupted);
}

// Real traces of any age: nothing is lost, and the sums agree with the allocator's own.
struct Sample {
  const char* file;
  std::vector<std::pair<const char*, std::size_t>> memory_events;  // by device
};

const std::vector<Sample> kSamples = {
    {"bert_small_h100.json.gz", {{"cuda:0", 218}, {"cpu", 18}}},
    {"ddp_resnet18_cpu_memory_only.json.gz", {{"cpu", 210}}},
    {"normalization_unordered_mi300.json.gz", {{"hip:0", 415}, {"cpu", 60}}},
    {"resnet50_2021.pt.trace.json.gz", {{"cuda:0", 8220}, {"cpu", 4618}}},
    {"timesformer_h100.json.gz", {{"cuda:0", 1206}, {"cpu", 58}}},
    {"vit_h100.json.gz", {{"cuda:0", 572}, {"cpu", 48}}},
    {"vit_mi300.json.gz", {{"hip:0", 620}}},
    {"vllm_graph_capture.pt.trace.json.gz", {{"hip:0", 1114}}},
};

Outcome read_sample(const std::string& name) {
  auto file = open_file((tests::samples_folder() / "kineto" / name).string());
  if (!file) {
    Outcome outcome;
    outcome.trace = file.error();
    return outcome;
  }
  const auto source = gunzip(std::move(*file));
  return read(*source);
}

TEST(KinetoReader, slow_samples_keep_every_memory_event_and_agree_with_the_allocator) {
  PLIMSOLL_NEEDS_SAMPLES();
  for (const Sample& sample : kSamples) {
    const Outcome outcome = read_sample(sample.file);
    ASSERT_TRUE(outcome.trace.ok()) << sample.file << ": " << outcome.trace.error().message;
    const model::Trace& trace = *outcome.trace;
    ASSERT_EQ(trace.devices.size(), sample.memory_events.size()) << sample.file;
    for (std::size_t d = 0; d < trace.devices.size(); ++d) {
      const model::DeviceTrace& device = trace.devices[d];
      EXPECT_EQ(to_string(device.device), sample.memory_events[d].first) << sample.file;
      std::size_t count = 0;
      for (std::size_t i = 0; i < device.events.size(); ++i) {
        const model::Action action = device.events.action[i];
        count += action == model::Action::kAlloc || action == model::Action::kFreeRequested;
      }
      EXPECT_EQ(count, sample.memory_events[d].second) << sample.file;
    }
    EXPECT_EQ(outcome.count(kTotalsDisagree), 0u) << sample.file;
    EXPECT_EQ(outcome.count(kBadMemoryEvent), 0u) << sample.file;
    EXPECT_EQ(outcome.count(kBadSpan), 0u) << sample.file;
  }
}

TEST(KinetoReader, samples_without_allocations_are_identified) {
  PLIMSOLL_NEEDS_SAMPLES();
  EXPECT_EQ(read_sample("no_memory_events.json.gz").count(kNoMemoryEvents), 1u);
  const Outcome timeline = read_sample("memory_timeline.raw.json.gz");
  ASSERT_FALSE(timeline.trace.ok());
  EXPECT_EQ(timeline.trace.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace plimsoll::readers::kineto

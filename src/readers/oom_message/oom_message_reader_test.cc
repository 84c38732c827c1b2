#include "readers/oom_message/oom_message_reader.h"

#include <span>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::readers::oom_message {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kLog =
    "epoch 1\nTraceback (most recent call last):\n  File \"train.py\", line 30, in step\n"
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 80.00 GiB of "
    "which 1.00 GiB is free. Of the allocated memory 60.00 GiB is allocated by PyTorch, and 5.00 "
    "GiB is reserved by PyTorch but unallocated.\n";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Result<model::Trace> read(std::string_view text) {
  base::Diagnostics diagnostics;
  base::Progress progress;
  model::TraceBuilder builder(diagnostics);
  ReadContext context{builder, diagnostics, progress, Limits{}};
  const auto source = view_memory(bytes_of(text), 7);
  PLIMSOLL_TRY(make()->read(*source, context));
  return builder.finish("oom_message", progress);
}

TEST(OomMessageReader, a_message_is_an_event_of_its_device) {
  const auto trace = read(kLog);
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->devices.size(), 1u);
  const model::DeviceTrace& device = trace->devices[0];
  EXPECT_EQ(to_string(device.device), "cuda:1");
  ASSERT_EQ(device.events.size(), 1u);
  EXPECT_EQ(device.events.action[0], model::Action::kOom);
  EXPECT_EQ(device.events.size_bytes[0], std::uint64_t{2} << 30);
  EXPECT_EQ(device.allocated_before_bytes, std::uint64_t{60} << 30);
  EXPECT_EQ(device.reserved_before_bytes, std::uint64_t{65} << 30);
  EXPECT_EQ(trace->oom_messages.size(), 1u);
}

TEST(OomMessageReader, text_is_certain_only_with_a_message) {
  EXPECT_EQ(make()->sniff(bytes_of(kLog)), Confidence::kCertain);
  EXPECT_EQ(make()->sniff(bytes_of("epoch 1\n")), Confidence::kMaybe);
  EXPECT_EQ(make()->sniff(bytes_of(std::string_view("a\0b", 3))), Confidence::kNo);
  EXPECT_EQ(make()->sniff(bytes_of("")), Confidence::kNo);
}

TEST(OomMessageReader, escape_sequences_are_no_part_of_the_text) {
  const auto trace = read(
      "\x1b[31mCUDA out of memory. Tried to allocate \x1b[1;36m2.00\x1b[0m GiB. GPU "
      "\x1b[1m1\x1b[0m has a total capacity of 8\x1b[0m0.00 GiB\x1b[");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->oom_messages.size(), 1u);
  EXPECT_EQ(to_string(trace->oom_messages[0].device), "cuda:1");
  EXPECT_EQ(trace->oom_messages[0].requested_bytes, std::uint64_t{2} << 30);
  EXPECT_EQ(trace->oom_messages[0].total_bytes, std::uint64_t{80} << 30);
}

std::string title_in(std::string_view text) {
  const auto trace = read(text);
  if (!trace.ok()) return trace.error().message;
  const auto& known = trace->oom_messages.at(0).known;
  return known ? known->title : "of PyTorch";
}

TEST(OomMessageReader, other_failures_of_nccl_are_not_about_memory) {
  EXPECT_THAT(title_in("NCCL WARN Cuda failure 2 'out of memory'\n"), HasSubstr("NCCL"));
  EXPECT_THAT(title_in("NCCL WARN Cuda failure 1 'invalid argument'\nout of memory?\n"),
              HasSubstr("none of the messages"));
}

TEST(OomMessageReader, a_failed_query_of_nvml_is_an_out_of_memory_error_only_in_the_allocator) {
  const auto title = [](std::string file) {
    return title_in(
        "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"/pytorch/c10/cuda/" + file +
        "\":1154, please report a bug to PyTorch.\n  at CUDACachingAllocator.cpp:3\n");
  };
  EXPECT_THAT(title("CUDACachingAllocator.cpp"), HasSubstr("PyTorch ran out of memory"));
  EXPECT_THAT(title("PeerToPeerAccess.cpp"), HasSubstr("none of the messages"));
}

TEST(OomMessageReader, a_known_text_is_an_event_with_its_traceback) {
  const auto trace = read(
      "{\"log\":\"Traceback (most recent call last):\\n\",\"stream\":\"stderr\"}\n"
      "{\"log\":\"  File \\\"a.py\\\", line 3, in f\\n\",\"stream\":\"stderr\"}\n"
      "{\"log\":\"RuntimeError: CUDA error: out of memory\\n\",\"stream\":\"stderr\"}\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->oom_messages.size(), 1u);
  ASSERT_TRUE(trace->oom_messages[0].known.has_value());
  EXPECT_EQ(trace->oom_messages[0].known->quotation, "RuntimeError: CUDA error: out of memory");
  ASSERT_EQ(trace->devices.size(), 1u);
  EXPECT_NE(trace->site(trace->devices[0], 0).stack, model::kNoStack);
}

TEST(OomMessageReader, a_message_of_pytorch_precedes_known_texts_about_its_device) {
  const auto trace = read(std::string(kLog) + "CUDA error: out of memory\nOOMKilled\n");
  ASSERT_TRUE(trace.ok()) << trace.error().message;
  ASSERT_EQ(trace->oom_messages.size(), 2u);
  EXPECT_FALSE(trace->oom_messages[0].known.has_value());
  EXPECT_THAT(trace->oom_messages[1].known->title, HasSubstr("Kubernetes"));
}

TEST(OomMessageReader, the_fallback_names_what_is_known) {
  EXPECT_THAT(read("hello\n").error().message,
              AllOf(HasSubstr("vLLM"), HasSubstr("Ray"), Not(HasSubstr("no out-of-memory"))));
}

TEST(OomMessageReader, a_quotation_is_refused_with_a_next_step) {
  EXPECT_THAT(
      read("See the docs: CUDA out of memory. Tried to allocate 2.00 GiB.\n").error().message,
      HasSubstr("quotes an out-of-memory message within a sentence"));
}

TEST(OomMessageReader, logs_of_json_are_certain) {
  EXPECT_EQ(make()->sniff(bytes_of("{\"log\":\"a\\n\",\"stream\":\"stdout\"}\n")),
            Confidence::kCertain);
  EXPECT_NE(make()->sniff(bytes_of("{\"traceEvents\": []}")), Confidence::kCertain);
}

TEST(OomMessageReader, other_text_is_refused_with_a_next_step) {
  EXPECT_THAT(read("hello\n").error().message, HasSubstr("plimsoll run SCRIPT"));
  EXPECT_THAT(read("import torch\n").error().message, HasSubstr("plimsoll run FILE"));
}

}  // namespace
}  // namespace plimsoll::readers::oom_message

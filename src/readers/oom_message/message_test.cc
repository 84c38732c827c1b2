#include "readers/oom_message/message.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::readers::oom_message {
namespace {

using model::Device;
using model::DeviceType;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

constexpr std::string_view kTorch2 =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total "
    "capacity of 80.00 GiB of which 1.00 GiB is free. Process 4711 has 12.00 GiB memory in use. "
    "Including non-PyTorch memory, this process has 67.00 GiB memory in use. 70.00 GiB allowed; Of "
    "the allocated memory 60.00 GiB is allocated by PyTorch, with 512.00 MiB allocated in private "
    "pools (e.g., CUDA Graphs), and 5.00 GiB is reserved by PyTorch but unallocated. If reserved "
    "but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
    "to avoid fragmentation.";

model::OomMessage only(std::string_view text) {
  const auto found = find_messages(text);
  EXPECT_THAT(found, SizeIs(1));
  return found.empty() ? model::OomMessage{} : found.front().message;
}

TEST(OomMessage, all_numbers_of_torch_2) {
  const model::OomMessage message = only(kTorch2);
  EXPECT_EQ(message.device, (Device{DeviceType::kCuda, 3}));
  EXPECT_EQ(message.requested_bytes, 2 * kGiB);
  EXPECT_EQ(message.total_bytes, 80 * kGiB);
  EXPECT_EQ(message.free_bytes, kGiB);
  EXPECT_EQ(message.process_bytes, 67 * kGiB);
  EXPECT_EQ(message.limit_bytes, 70 * kGiB);
  EXPECT_EQ(message.allocated_bytes, 60 * kGiB);
  EXPECT_EQ(message.private_pool_bytes, 512 * kMiB);
  EXPECT_EQ(message.reserved_bytes, 65 * kGiB);
  ASSERT_THAT(message.processes, SizeIs(1));
  EXPECT_EQ(message.processes[0].pid, 4711);
  EXPECT_EQ(message.processes[0].used_bytes, 12 * kGiB);
}

TEST(OomMessage, all_numbers_of_torch_1) {
  const model::OomMessage message = only(
      "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total "
      "capacity; 6.25 GiB already allocated; 12.00 MiB free; 6.50 GiB reserved in total by "
      "PyTorch)");
  EXPECT_EQ(message.requested_bytes, 20 * kMiB);
  EXPECT_EQ(message.total_bytes, 8 * kGiB);
  EXPECT_EQ(message.allocated_bytes, 6 * kGiB + kGiB / 4);
  EXPECT_EQ(message.free_bytes, 12 * kMiB);
  EXPECT_EQ(message.reserved_bytes, 6 * kGiB + kGiB / 2);
  EXPECT_FALSE(message.process_bytes.has_value());
  EXPECT_FALSE(message.limit_bytes.has_value());
}

TEST(OomMessage, what_torch_1_3_calls_cached_is_not_allocated) {
  const model::OomMessage message = only(
      "CUDA out of memory. Tried to allocate 3.25GiB (GPU 0; 12.00 GiB total capacity; 9.00 GiB "
      "already allocated; 1.25GiB free;512.00 MiB cached)");
  EXPECT_EQ(message.requested_bytes, 3 * kGiB + kGiB / 4);
  EXPECT_EQ(message.free_bytes, kGiB + kGiB / 4);
  EXPECT_EQ(message.reserved_bytes, 9 * kGiB + kGiB / 2);
}

TEST(OomMessage, the_spelling_of_torch_2_0_is_read) {
  const model::OomMessage message = only(
      "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacty of 24.00 GiB of "
      "which 8.00 MiB is free.");
  EXPECT_EQ(message.total_bytes, 24 * kGiB);
  EXPECT_EQ(message.free_bytes, 8 * kMiB);
}

// As rich prints a traceback in a box, and as a narrow terminal wraps it.
TEST(OomMessage, a_message_may_be_wrapped) {
  for (const char* const end : {"\n", " \r\n  ", "   \xE2\x94\x82\n\xE2\x94\x82 ", " |\n| "}) {
    std::string text;
    for (const char c : kTorch2) {
      if (c == ' ') {
        text += end;
      } else {
        text += c;
      }
    }
    const std::string start = std::string("CUDA") + end + "out" + end + "of" + end + "memory.";
    text.replace(text.find(start), start.size(), "CUDA out of memory.");
    const model::OomMessage message = only(text);
    EXPECT_EQ(message.device, (Device{DeviceType::kCuda, 3})) << end;
    EXPECT_EQ(message.requested_bytes, 2 * kGiB);
    EXPECT_EQ(message.total_bytes, 80 * kGiB);
    EXPECT_EQ(message.free_bytes, kGiB);
    EXPECT_EQ(message.process_bytes, 67 * kGiB);
    EXPECT_EQ(message.limit_bytes, 70 * kGiB);
    EXPECT_EQ(message.reserved_bytes, 65 * kGiB);
    EXPECT_EQ(message.private_pool_bytes, 512 * kMiB);
    EXPECT_THAT(message.processes, SizeIs(1));
  }
}

// The text with a prefix before each line.
std::string prefixed(std::string_view prefix, std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    all.append(prefix).append(text.substr(0, end));
    text.remove_prefix(end);
  }
  return all;
}

// As in a comment, a mail, or a table of Markdown.
TEST(OomMessage, a_wrapped_message_may_be_quoted) {
  for (const std::string marks : {"# ", "> ", "| ", "> > ", "  # ", ">"}) {
    std::string text = "the run printed:\n";
    text += prefixed(marks,
                     "CUDA out of memory. Tried to allocate 250.00\n"
                     "MiB. GPU 0 has a total capacity of 79.19 GiB of which 70.00 MiB is free. "
                     "Process 4711 has\r\n"
                     "40.10 GiB memory in use. Of the allocated memory\n"
                     "\n"
                     "20.25 GiB is allocated by PyTorch, and\n"
                     "17.75 GiB is reserved by\n"
                     "PyTorch but unallocated.\n");
    const model::OomMessage message = only(text);
    EXPECT_EQ(message.requested_bytes, 250 * kMiB) << marks;
    ASSERT_THAT(message.processes, SizeIs(1)) << marks;
    EXPECT_EQ(message.allocated_bytes, 20 * kGiB + kGiB / 4) << marks;
    EXPECT_EQ(message.reserved_bytes, 38 * kGiB) << marks;
  }
}

TEST(OomMessage, messages_of_other_devices) {
  EXPECT_EQ(only("HIP out of memory. Tried to allocate 1.00 GiB. GPU 1 has a total capacity of "
                 "64.00 GiB of which 0 bytes is free.")
                .device,
            (Device{DeviceType::kHip, 1}));
  EXPECT_EQ(only("XPU out of memory. Tried to allocate 16.00 GiB. GPU 0 has a total capacity of "
                 "15.56 GiB.")
                .device,
            (Device{DeviceType::kXpu, 0}));
  EXPECT_EQ(only("NPU out of memory. Tried to allocate 20.00 MiB (NPU 2; 60.97 GiB total capacity; "
                 "58.61 GiB already allocated; 11.25 MiB free; 59.87 GiB reserved in total by "
                 "PyTorch)")
                .device,
            (Device{DeviceType::kNpu, 2}));
  const model::OomMessage mps = only(
      "RuntimeError: MPS backend out of memory (MPS allocated: 17.50 GB, other allocations: "
      "384.00 KB, max allowed: 18.00 GB). Tried to allocate 1024.00 MB on private pool.");
  EXPECT_EQ(mps.device.type, DeviceType::kMps);
  EXPECT_EQ(mps.requested_bytes, kGiB);
  EXPECT_EQ(mps.limit_bytes, 18 * kGiB);
  EXPECT_EQ(mps.reserved_bytes, 17 * kGiB + kGiB / 2);
  EXPECT_EQ(mps.process_bytes, 17 * kGiB + kGiB / 2 + 384 * (kGiB >> 20));
  EXPECT_FALSE(mps.allocated_bytes.has_value());
  const model::OomMessage cpu = only(
      "[enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: can't allocate memory: "
      "you tried to allocate 4294967296 bytes. Error code 12 (Cannot allocate memory)");
  EXPECT_EQ(cpu.device, (Device{DeviceType::kCpu, -1}));
  EXPECT_EQ(cpu.requested_bytes, 4 * kGiB);
  const model::OomMessage windows = only(
      "[enforce fail at C:\\c10\\core\\impl\\alloc_cpu.cpp:81] data. DefaultCPUAllocator: not "
      "enough memory: you tried to allocate 1048576 bytes.");
  EXPECT_EQ(windows.device, (Device{DeviceType::kCpu, -1}));
  EXPECT_EQ(windows.requested_bytes, kMiB);
}

// As CUDAMallocAsyncAllocator.cpp prints it; the limit is 2^64 - 1 bytes without one.
TEST(OomMessage, all_numbers_under_cudaMallocAsync) {
  const std::string text =
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\n"
      "torch.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of "
      "memory)\n"
      "Currently allocated     : 9.43 GiB\n"
      "Requested               : 640.00 MiB\n"
      "Device limit            : 11.59 GiB\n"
      "Free (according to CUDA): 7.12 MiB\n"
      "PyTorch limit (set by user-supplied memory fraction)\n"
      "                        : ";
  const auto found = find_messages(text + "17179869184.00 GiB\n");
  ASSERT_THAT(found, SizeIs(1));
  const model::OomMessage& message = found[0].message;
  EXPECT_EQ(message.device, (Device{DeviceType::kCuda, 1}));
  EXPECT_EQ(message.requested_bytes, 640 * kMiB);
  EXPECT_EQ(message.allocated_bytes, 10125385400u);
  EXPECT_EQ(message.total_bytes, 12444667740u);
  EXPECT_EQ(message.free_bytes, 7465861u);
  EXPECT_FALSE(message.limit_bytes.has_value());
  EXPECT_THAT(found[0].traceback, SizeIs(1));
  EXPECT_EQ(only(text + "4.00 GiB\n").limit_bytes, 4 * kGiB);
  EXPECT_THAT(find_messages("Allocation on device 0 would exceed allowed memory. (out of memory)"),
              IsEmpty());
}

TEST(OomMessage, the_traceback_before_it_names_the_lines) {
  const std::string text =
      "[rank1]: Traceback (most recent call last):\n"
      "[rank1]:   File \"/home/me/train.py\", line 30, in <module>\n"
      "[rank1]:     main()\n"
      "[rank1]:   File \"/env/torch/nn/functional.py\", line 7, in linear\n"
      "[rank1]:     return x @ w\n"
      "[rank1]: " +
      std::string(kTorch2) + "\n";
  const auto found = find_messages(text);
  ASSERT_THAT(found, SizeIs(1));
  ASSERT_THAT(found[0].traceback, SizeIs(2));
  EXPECT_EQ(found[0].traceback[0].file, "/env/torch/nn/functional.py");
  EXPECT_EQ(found[0].traceback[0].line, 7u);
  EXPECT_EQ(found[0].traceback[1].function, "<module>");
}

TEST(OomMessage, frames_directly_above_it_need_no_head_of_a_traceback) {
  for (const std::string prefix : {"", "[rank3]: ", "# "}) {
    std::string text = "step 7 done\n";
    text += prefixed(prefix,
                     "    main()\n"
                     "  File \"/home/me/train.py\", line 30, in step\n"
                     "    loss = model(\n"
                     "           ^^^^^^\n"
                     "  [Previous line repeated 9 more times]\n"
                     "  File \"/env/torch/functional.py\", line 7, in linear\r\n"
                     "    return x @ w\n"
                     "\n");
    text.append(prefix).append(kTorch2);
    const auto found = find_messages(text);
    ASSERT_THAT(found, SizeIs(1)) << prefix;
    ASSERT_THAT(found[0].traceback, SizeIs(2)) << prefix;
    EXPECT_EQ(found[0].traceback[0].function, "linear");
    EXPECT_EQ(found[0].traceback[1].line, 30u);
    EXPECT_EQ(found[0].traceback[1].function, "step");
  }
}

TEST(OomMessage, frames_of_other_output_are_not_its_traceback) {
  const std::string frame = "  File \"a.py\", line 1, in f\n    f()\n";
  for (const std::string& text :
       {frame + "ValueError: retried\n", "[rank0]:" + frame + "[rank1]: ", frame + "epoch 2\n\n",
        frame + "[rank0]:   File \"b.py\", line 2, in g\n[rank1]: "}) {
    const auto found = find_messages(text + std::string(kTorch2));
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_THAT(found[0].traceback, IsEmpty()) << text;
  }
}

TEST(OomMessage, paths_and_wording_of_windows_are_recognized) {
  const auto is_from_windows = [](std::string_view file, std::string_view message) {
    return only("  File \"" + std::string(file) + "\", line 1, in f\n    f()\n" +
                std::string(message))
        .is_from_windows;
  };
  EXPECT_TRUE(is_from_windows("C:\\dev\\train.py", kTorch2));
  EXPECT_FALSE(is_from_windows("/home/me/train.py", kTorch2));
  EXPECT_FALSE(is_from_windows("", kTorch2));
  EXPECT_FALSE(only(kTorch2).is_from_windows);
  EXPECT_TRUE(only("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.")
                  .is_from_windows);
  EXPECT_FALSE(only("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")
                   .is_from_windows);
}

TEST(OomMessage, a_traceback_belongs_to_one_message) {
  const std::string text = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n" +
                           std::string(kTorch2) + "\nand again\n" + std::string(kTorch2);
  const auto found = find_messages(text);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].traceback, SizeIs(1));
  EXPECT_THAT(found[1].traceback, IsEmpty());
}

TEST(OomMessage, a_message_in_a_sentence_is_a_quotation) {
  const std::string prose = "See the docs: CUDA out of memory. Tried to allocate 2.00 GiB.\n";
  EXPECT_THAT(find_messages(prose), IsEmpty());
  EXPECT_TRUE(quotes_message(prose));
  EXPECT_THAT(find_messages(prose + std::string(kTorch2)), SizeIs(1));
  EXPECT_FALSE(quotes_message(kTorch2));
}

TEST(OomMessage, text_without_a_size_is_not_a_message) {
  EXPECT_THAT(find_messages(""), IsEmpty());
  EXPECT_THAT(find_messages("we ran out of memory"), IsEmpty());
  EXPECT_THAT(find_messages("CUDA out of memory. Tried to allocate inf GiB."), IsEmpty());
  EXPECT_THAT(find_messages("CUDA out of memory. Tried to allocate"), IsEmpty());
}

TEST(OomMessage, a_decimal_comma_makes_a_number_unknown_not_wrong) {
  const model::OomMessage message = only(
      "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8,00 GiB total capacity; 6,25 GiB "
      "already allocated; 1,50 GiB free)");
  EXPECT_FALSE(message.total_bytes.has_value());
  EXPECT_FALSE(message.allocated_bytes.has_value());
  EXPECT_FALSE(message.free_bytes.has_value());
}

TEST(OomMessage, sizes_have_a_number_and_a_unit) {
  EXPECT_EQ(size_at_start("512 bytes"), 512u);
  EXPECT_EQ(size_at_start("1.50 KiB."), 1536u);
  EXPECT_EQ(size_at_start("1 GB"), kGiB);
  EXPECT_EQ(size_at_start("1.50GiB free"), kGiB + kGiB / 2);
  EXPECT_FALSE(size_at_start("1.5").has_value());
  EXPECT_FALSE(size_at_start("nan GiB").has_value());
  EXPECT_FALSE(size_at_start("3 apples").has_value());
  EXPECT_EQ(size_at_start("99999999999999999999 PiB"), std::uint64_t{1} << 60);
}

}  // namespace
}  // namespace plimsoll::readers::oom_message

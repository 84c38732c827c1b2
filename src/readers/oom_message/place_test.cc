#include "readers/oom_message/place.h"

#include <string>

#include <gtest/gtest.h>

namespace plimsoll::readers::oom_message {
namespace {

constexpr std::string_view kMessage = "CUDA out of memory. Tried to allocate 2.00 GiB.";

bool is_printed_behind(const std::string& lead, Figures figures) {
  return is_printed(lead + std::string(kMessage), lead.size(), figures);
}

TEST(Place, behind_what_loggers_and_launchers_put_before_a_message) {
  for (const char* const lead : {"",
                                 "  ",
                                 "earlier line\n",
                                 "\xE2\x94\x82 ",
                                 "[rank3]: ",
                                 "3: ",
                                 "[default3]:",
                                 "| ",
                                 "RuntimeError: ",
                                 "torch.OutOfMemoryError: ",
                                 "[rank0]: torch.cuda.OutOfMemoryError: ",
                                 "2026-11-29 12:00:00,123 - root - ERROR - ",
                                 "2026-11-29 12:00:00 ERROR ",
                                 "root:",
                                 "ERROR:root:",
                                 "2026-11-29 12:00:00.000 | ERROR    | __main__:main:30 - ",
                                 "(EngineCore_0 pid=7) ERROR 09-01 12:00:00 [core.py:718] ",
                                 "trainer-1  | ",
                                 "Nov 29 12:00:00 gpu7 kernel: [337533.3] ",
                                 "ray.exceptions.RayTaskError(OutOfMemoryError): ",
                                 "E0000 00:00:1 bfc_allocator.cc:485] ",
                                 "  what():  ",
                                 "error: ",
                                 "worker_1: ",
                                 "Training failed: ",
                                 "Caught exception: ",
                                 "| WARNING: ran out with exception: ",
                                 "Worker 3 raised RuntimeError: ",
                                 "Epoch 3: ",
                                 "I get RuntimeError: ",
                                 "{\"msg\": \"",
                                 "{'error': 'RuntimeError: ",
                                 "level=error msg=\"",
                                 "[\"",
                                 "12:00:00 trainer error ",
                                 "trainer_1   "}) {
    EXPECT_TRUE(is_printed_behind(lead, Figures::kSome)) << lead;
  }
  EXPECT_TRUE(is_printed_behind("# RuntimeError: ", Figures::kSome)) << "copied from a run";
  EXPECT_TRUE(is_printed_behind("Trial 3: OutOfMemoryError('", Figures::kSome));
}

TEST(Place, not_in_sentences_comments_and_source) {
  for (const char* const lead :
       {"See the docs: ", "Note: ", "For example: ", "If the program prints ", "You may see `",
        "Texts like \"", "such as `RuntimeError: ", "He wrote: \"", "the log has '", "retry(\"",
        "loss.backward()  # ", "f();  // "}) {
    EXPECT_FALSE(is_printed_behind(lead, Figures::kSome)) << lead;
    EXPECT_FALSE(is_printed_behind(lead, Figures::kNone)) << lead;
  }
  for (const char* const lead : {"# ", "  // ", " * ", "# RuntimeError: ", "<!-- ",
                                 "    raise RuntimeError(\"", "  throw std::runtime_error(\""}) {
    EXPECT_FALSE(is_printed_behind(lead, Figures::kNone)) << lead;
  }
}

}  // namespace
}  // namespace plimsoll::readers::oom_message

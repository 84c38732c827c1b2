// Tests that every reader must pass, whatever its format. The tests of a reader instantiate them
// with a file that it reads:
//
//   INSTANTIATE_TEST_SUITE_P(Kineto, ReaderSuite,
//                            testing::Values(ReaderCase{readers::kineto::make,
//                            "kineto/step.json"}));
#pragma once

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/trace_builder.h"
#include "readers/reader.h"
#include "tests/support/trace_difference.h"

namespace plimsoll::tests {

struct ReaderCase {
  std::unique_ptr<readers::Reader> (*make)();
  std::string file;               // under tests/fuzz/corpus
  std::size_t skipped_bytes = 0;  // leading bytes that only the fuzz target uses
};
inline void PrintTo(const ReaderCase& reader, std::ostream* out) { *out << reader.file; }

class ReaderSuite : public testing::TestWithParam<ReaderCase> {
 protected:
  struct Outcome {
    Status status;
    model::Trace trace;
    readers::SideData side_data;
  };

  void SetUp() override {
    const ReaderCase& reader = GetParam();
    std::ifstream file(PLIMSOLL_SOURCE_DIR "/tests/fuzz/corpus/" + reader.file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    ASSERT_GT(text.size(), reader.skipped_bytes) << reader.file;
    const auto bytes = std::as_bytes(std::span(text)).subspan(reader.skipped_bytes);
    bytes_.assign(bytes.begin(), bytes.end());
  }

  Outcome read(std::span<const std::byte> bytes, std::size_t piece = SIZE_MAX,
               std::uint64_t memory_bytes = 1 << 30) {
    Outcome outcome;
    base::Diagnostics diagnostics;
    model::TraceBuilder builder(diagnostics);
    readers::ReadContext context{builder, diagnostics, progress_,
                                 readers::Limits{.memory_bytes = memory_bytes}, &outcome.side_data};
    const auto source = readers::view_memory(bytes, piece);
    outcome.status = reader_->read(*source, context);
    if (!outcome.status) return outcome;
    auto trace = builder.finish(reader_->name(), progress_);
    if (trace.ok()) {
      outcome.trace = std::move(*trace);
    } else {
      outcome.status = std::move(trace).error();
    }
    return outcome;
  }

  static std::string attached_text(const Outcome& outcome) {
    std::string text;
    for (const readers::Attachment& each : outcome.side_data.attachments) {
      text += each.format + ":";
      for (const std::byte byte : each.bytes) text += static_cast<char>(byte);
    }
    return text;
  }

  std::unique_ptr<readers::Reader> reader_ = GetParam().make();
  std::vector<std::byte> bytes_;
  base::Progress progress_;
};

TEST_P(ReaderSuite, knows_its_own_and_no_other) {
  EXPECT_EQ(reader_->sniff(bytes_), readers::Confidence::kCertain);
  EXPECT_EQ(reader_->sniff({}), readers::Confidence::kNo);
  EXPECT_EQ(reader_->sniff(std::vector<std::byte>(100, std::byte{0xEE})), readers::Confidence::kNo);
}

TEST_P(ReaderSuite, gives_the_same_trace_whatever_the_pieces) {
  const Outcome whole = read(bytes_);
  ASSERT_TRUE(whole.status.ok());
  EXPECT_GT(whole.trace.event_count() + whole.trace.segments.size(), 0u);
  for (const std::size_t piece : {1U, 2U, 7U, 64U, 4096U}) {
    const Outcome pieces = read(bytes_, piece);
    ASSERT_TRUE(pieces.status.ok());
    EXPECT_EQ(TraceDifference::of(whole.trace, pieces.trace), "") << piece;
    EXPECT_EQ(attached_text(whole), attached_text(pieces)) << piece;
    EXPECT_EQ(whole.side_data.activities.size(), pieces.side_data.activities.size()) << piece;
  }
}

TEST_P(ReaderSuite, takes_or_refuses_every_prefix_and_says_why) {
  for (std::size_t size = 0; size < bytes_.size(); ++size) {
    const Outcome part = read(std::span(bytes_).first(size));
    if (part.status.ok()) continue;
    EXPECT_FALSE(part.status.error().message.empty()) << size;
    EXPECT_NE(part.status.error().code, ErrorCode::kInternal) << size;
  }
}

TEST_P(ReaderSuite, bears_any_byte_being_another) {
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x80u, 0xFFu}) {
      std::vector<std::byte> bytes = bytes_;
      bytes[at] ^= static_cast<std::byte>(flip);
      const Outcome outcome = read(bytes);
      if (outcome.status.ok()) continue;
      EXPECT_FALSE(outcome.status.error().message.empty());
    }
  }
}

TEST_P(ReaderSuite, stops_when_the_user_says_so) {
  progress_.interrupt();
  const Outcome outcome = read(bytes_);
  ASSERT_FALSE(outcome.status.ok());
  EXPECT_EQ(outcome.status.error().code, ErrorCode::kInterrupted);
}

}  // namespace plimsoll::tests

// Attachments written in pieces, read in pieces of any size, and damaged piece by piece.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "format/decoder.h"
#include "format/dump.h"
#include "format/encoder.h"
#include "tests/support/trace_file.h"

namespace plimsoll::format {
namespace {

using tests::TraceFile;

std::vector<std::byte> made_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::uint32_t state = 1;
  for (std::byte& each : bytes) {
    state = state * 1'664'525u + 1'013'904'223u;
    each = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

struct Pieces : NoRecords {
  void on_attachment(const AttachmentPiece& piece) {
    name = piece.name;
    id = piece.id;
    total_bytes = piece.total_bytes;
    EXPECT_EQ(piece.offset, bytes.size());
    bytes.insert(bytes.end(), piece.bytes.begin(), piece.bytes.end());
    ++count;
  }
  void on_alloc(const Alloc&) { ++events; }

  std::string name;
  std::uint64_t id = 0, total_bytes = 0, count = 0, events = 0;
  std::vector<std::byte> bytes;
};

Pieces pieces_of(std::span<const std::byte> file, std::size_t piece = SIZE_MAX) {
  Pieces pieces;
  Decoder<Pieces> decoder(pieces);
  while (!file.empty()) {
    const std::size_t count = std::min(piece, file.size());
    decoder.push(file.first(count));
    file = file.subspan(count);
  }
  decoder.finish();
  return pieces;
}

TEST(Attachment, round_trips_at_any_size_and_in_any_pieces) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kAttachmentPieceBytes,
                                 kAttachmentPieceBytes + 1, 3 * kAttachmentPieceBytes}) {
    TraceFile file;
    Encoder encoder(file);
    encoder.define_site(1, {});
    encoder.alloc({1'000, 1, 1, 0, 64, 10, false});
    const auto bytes = made_bytes(size);
    encoder.attachment("torch_snapshot", bytes);
    encoder.alloc({2'000, 1, 1, 1, 128, 10, false});
    encoder.finish(3'000);
    EXPECT_EQ(encoder.lost(), 0u);
    for (const std::size_t piece : {std::size_t{4093}, SIZE_MAX}) {
      const Pieces read = pieces_of(file.bytes(), piece);
      EXPECT_EQ(read.name, "torch_snapshot");
      EXPECT_EQ(read.id, 1u);
      EXPECT_EQ(read.total_bytes, size);
      EXPECT_EQ(read.bytes, bytes) << size;
      EXPECT_EQ(read.count, std::max<std::size_t>(
                                1, (size + kAttachmentPieceBytes - 1) / kAttachmentPieceBytes));
      EXPECT_EQ(read.events, 2u);
    }
  }
}

TEST(Attachment, never_exceeds_its_stated_size) {
  const AttachmentPiece whole = [] {
    static TraceFile file;
    Encoder encoder(file);
    encoder.attachment("name", made_bytes(10));
    const auto payload = std::span(file.bytes()).subspan(kPreludeBytes + kBlockHeadBytes);
    return *read_attachment(payload);
  }();
  EXPECT_EQ(whole.bytes.size(), 10u);
  const auto payload = [](std::uint64_t total, std::uint64_t offset, std::uint64_t name_bytes) {
    std::vector<std::byte> bytes(64);
    std::byte* at = put_varint(bytes.data(), 1);
    at = put_varint(at, total);
    at = put_varint(at, offset);
    at = put_varint(at, name_bytes);
    bytes.resize(static_cast<std::size_t>(at - bytes.data()) + 8);
    return bytes;
  };
  EXPECT_TRUE(read_attachment(payload(4, 0, 4)));
  EXPECT_FALSE(read_attachment(payload(3, 0, 4)));  // larger than the whole
  EXPECT_FALSE(read_attachment(payload(4, 1, 4)));  // past the end
  EXPECT_FALSE(read_attachment(payload(4, ~std::uint64_t{0}, 4)));
  EXPECT_FALSE(read_attachment(payload(4, 0, 9)));  // a name longer than the block
  EXPECT_FALSE(read_attachment({}));
}

TEST(Attachment, limits_the_length_of_its_name) {
  TraceFile file;
  Encoder encoder(file);
  encoder.attachment(std::string(10'000, 'n'), made_bytes(1));
  EXPECT_EQ(pieces_of(file.bytes()).name, std::string(kMaxAttachmentName, 'n'));
}

TEST(Attachment, is_dumped_piece_by_piece) {
  TraceFile file;
  Encoder encoder(file);
  encoder.attachment("torch_snapshot", made_bytes(kAttachmentPieceBytes + 9));
  std::string text;
  Dump dump([&](std::string_view lines) { text += lines; });
  EXPECT_TRUE(dump.push(file.bytes()) && dump.finish());
  EXPECT_NE(text.find("attachment id=1 name=\"torch_snapshot\" offset=0 bytes=262144 of=262153\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("offset=262144 bytes=9 of=262153\n"), std::string::npos);
}

TEST(Attachment, loses_only_the_damaged_piece_and_no_event) {
  TraceFile file;
  Encoder encoder(file);
  encoder.attachment("name", made_bytes(10));
  encoder.define_site(1, {});
  encoder.alloc({1'000, 1, 1, 0, 64, 10, false});
  encoder.finish(2'000);
  std::vector<std::byte> bytes = file.bytes();
  bytes[kPreludeBytes + kBlockHeadBytes] ^= std::byte{1};
  const Pieces read = pieces_of(bytes);
  EXPECT_EQ(read.count, 0u);
  EXPECT_EQ(read.events, 1u);
}

}  // namespace
}  // namespace plimsoll::format

#include "page/deflate.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace plimsoll::page {
namespace {

constexpr std::size_t kWindow = 32768;
constexpr std::size_t kLongestMatch = 258;
constexpr std::size_t kShortestMatch = 4;  // deflate allows 3; the table has four bytes
constexpr unsigned kTableBits = 15;

// RFC 1951, 3.2.5: the least length (or distance) of each code, and its number of extra bits.
constexpr std::array<std::uint16_t, 29> kLengths = {3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                                    15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                                    67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::array<std::uint8_t, 29> kLengthBits = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                                      2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::array<std::uint16_t, 30> kDistances = {
    1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
    193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::array<std::uint8_t, 30> kDistanceBits = {0, 0, 0,  0,  1,  1,  2,  2,  3,  3,
                                                        4, 4, 5,  5,  6,  6,  7,  7,  8,  8,
                                                        9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

class BitWriter {
 public:
  // The lowest bit first.
  void bits(std::uint32_t value, unsigned count) {
    pending_ |= std::uint64_t{value} << pending_count_;
    pending_count_ += count;
    while (pending_count_ >= 8) {
      out_ += static_cast<char>(pending_ & 0xFF);
      pending_ >>= 8;
      pending_count_ -= 8;
    }
  }
  // Huffman codes have their highest bit first.
  void code(std::uint32_t value, unsigned count) {
    std::uint32_t reversed = 0;
    for (unsigned i = 0; i < count; ++i) reversed |= (value >> i & 1) << (count - 1 - i);
    bits(reversed, count);
  }
  std::string finish() {
    if (pending_count_ > 0) bits(0, 8 - pending_count_);
    return std::move(out_);
  }

 private:
  std::string out_;
  std::uint64_t pending_ = 0;
  unsigned pending_count_ = 0;
};

void write_symbol(BitWriter& out, std::uint32_t symbol) {
  if (symbol < 144) return out.code(0x30 + symbol, 8);
  if (symbol < 256) return out.code(0x190 + symbol - 144, 9);
  if (symbol < 280) return out.code(symbol - 256, 7);
  out.code(0xC0 + symbol - 280, 8);
}

template <typename Table>
std::uint32_t code_in(const Table& least, std::size_t value) {
  return static_cast<std::uint32_t>(std::ranges::upper_bound(least, value) - least.begin() - 1);
}

void write_match(BitWriter& out, std::size_t length, std::size_t distance) {
  const std::uint32_t length_code = code_in(kLengths, length);
  write_symbol(out, 257 + length_code);
  out.bits(static_cast<std::uint32_t>(length - kLengths[length_code]), kLengthBits[length_code]);
  const std::uint32_t distance_code = code_in(kDistances, distance);
  out.code(distance_code, 5);
  out.bits(static_cast<std::uint32_t>(distance - kDistances[distance_code]),
           kDistanceBits[distance_code]);
}

std::uint32_t slot_of(std::string_view bytes, std::size_t at) {
  std::uint32_t four = 0;
  std::memcpy(&four, bytes.data() + at, sizeof four);
  return four * 2654435761u >> (32 - kTableBits);
}

std::size_t match_length(std::string_view bytes, std::size_t from, std::size_t at) {
  const std::size_t most = std::min(kLongestMatch, bytes.size() - at);
  std::size_t length = 0;
  while (length < most && bytes[from + length] == bytes[at + length]) ++length;
  return length;
}

void write_block(BitWriter& out, std::string_view bytes) {
  out.bits(1, 1);  // the last block
  out.bits(1, 2);  // fixed codes
  std::vector<std::size_t> last(std::size_t{1} << kTableBits, bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t length = 0;
    std::size_t from = bytes.size();
    if (at + kShortestMatch <= bytes.size()) {
      std::size_t& place = last[slot_of(bytes, at)];
      from = place;
      place = at;
      if (from < at && at - from <= kWindow) length = match_length(bytes, from, at);
      // A repeated byte is a match with the one before, whose distance takes the fewest bits.
      if (at > 0 && match_length(bytes, at - 1, at) >= std::max(length, kShortestMatch)) {
        from = at - 1;
        length = match_length(bytes, from, at);
      }
    }
    if (length < kShortestMatch) {
      write_symbol(out, static_cast<unsigned char>(bytes[at++]));
      continue;
    }
    write_match(out, length, at - from);
    at += length;
  }
  write_symbol(out, 256);
}

void append_big_endian(std::string& out, std::uint32_t value) {
  for (const unsigned shift : {24u, 16u, 8u, 0u}) out += static_cast<char>(value >> shift & 0xFF);
}

}  // namespace

std::uint32_t adler32(std::string_view bytes) {
  constexpr std::uint32_t kModulus = 65521;
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<unsigned char>(byte)) % kModulus;
    b = (b + a) % kModulus;
  }
  return b << 16 | a;
}

std::uint32_t crc32(std::string_view bytes) {
  constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xEDB88320u : 0);
      table[i] = value;
    }
    return table;
  }();
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  }
  return ~crc;
}

std::string zlib_compressed(std::string_view bytes) {
  BitWriter block;
  write_block(block, bytes);
  std::string out = "\x78\x01";
  out += block.finish();
  append_big_endian(out, adler32(bytes));
  return out;
}

}  // namespace plimsoll::page

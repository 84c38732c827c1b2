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

// RFC 1951, 3.2.5: the smallest length (or distance) of each code, and its number of extra bits.
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
  // Writes the lowest bit first.
  void bits(std::uint32_t value, unsigned count) {
    pending_ |= std::uint64_t{value} << pending_count_;
    pending_count_ += count;
    while (pending_count_ >= 8) {
      out_ += static_cast<char>(pending_ & 0xFF);
      pending_ >>= 8;
      pending_count_ -= 8;
    }
  }
  // A Huffman code begins with its highest bit.
  void code(std::uint32_t value, unsigned count) {
    while (count > 0) bits(value >> --count & 1, 1);
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

// A byte, or a repetition of earlier bytes.
struct Token {
  std::uint16_t length = 0;  // 0: a byte
  std::uint16_t value = 0;   // the byte, or the distance
};

template <typename Table>
std::size_t code_in(const Table& least, std::size_t value) {
  return static_cast<std::size_t>(std::ranges::upper_bound(least, value) - least.begin() - 1);
}

std::size_t match_length(std::string_view bytes, std::size_t from, std::size_t at) {
  const std::size_t most = std::min(kLongestMatch, bytes.size() - at);
  const char* const a = bytes.data() + from;
  const char* const b = bytes.data() + at;
  std::size_t length = 0;
  while (length < most && a[length] == b[length]) ++length;
  return length;
}

// Finds earlier places with the same four bytes, nearest first.
class Matcher {
 public:
  explicit Matcher(std::string_view bytes)
      : bytes_(bytes), last_(std::size_t{1} << kTableBits, kNowhere), before_(kWindow, kNowhere) {}

  void add(std::size_t at) {
    if (at + kShortestMatch > bytes_.size()) return;
    std::size_t& last = last_[slot_of(at)];
    before_[at % kWindow] = last;
    last = at;
  }
  // The length and the place of the longest match for `at`, which has not been added yet.
  std::pair<std::size_t, std::size_t> longest(std::size_t at) const {
    std::pair<std::size_t, std::size_t> best = {0, 0};
    if (at + kShortestMatch > bytes_.size()) return best;
    std::size_t from = last_[slot_of(at)];
    for (int tries = 0; tries < kTries && from != kNowhere && at - from < kWindow; ++tries) {
      const std::size_t length = match_length(bytes_, from, at);
      if (length > best.first) best = {length, from};
      if (length == kLongestMatch) break;
      const std::size_t next = before_[from % kWindow];
      if (next != kNowhere && next >= from) break;  // overwritten by a later place
      from = next;
    }
    return best.first < kShortestMatch ? std::pair<std::size_t, std::size_t>{0, 0} : best;
  }

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  static constexpr int kTries = 16;

  std::size_t slot_of(std::size_t at) const {
    std::uint32_t four = 0;
    std::memcpy(&four, bytes_.data() + at, sizeof four);
    return four * 2654435761u >> (32 - kTableBits);
  }

  std::string_view bytes_;
  std::vector<std::size_t> last_;    // by slot
  std::vector<std::size_t> before_;  // by place: the previous place with the same slot
};

std::vector<Token> tokens_of(std::string_view bytes) {
  std::vector<Token> tokens;
  Matcher matcher(bytes);
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [length, from] = matcher.longest(at);
    if (length == 0) {
      tokens.push_back({0, static_cast<unsigned char>(bytes[at])});
      matcher.add(at++);
      continue;
    }
    tokens.push_back({static_cast<std::uint16_t>(length), static_cast<std::uint16_t>(at - from)});
    // In a long run, only the first and last bytes get an entry; the last ones keep matches near.
    for (std::size_t i = 0; i < length; ++i) {
      if (i < 32 || i + 8 >= length) matcher.add(at + i);
    }
    at += length;
  }
  return tokens;
}

constexpr std::uint32_t kEndOfBlock = 256;

// RFC 1951, 3.2.6: the fixed code of bytes, lengths and the end.
void write_symbol(BitWriter& out, std::uint32_t symbol) {
  if (symbol < 144) return out.code(0x30 + symbol, 8);
  if (symbol < 256) return out.code(0x190 + symbol - 144, 9);
  if (symbol < 280) return out.code(symbol - 256, 7);
  out.code(0xC0 + symbol - 280, 8);
}

void write_block(BitWriter& out, const std::vector<Token>& tokens) {
  out.bits(1, 1);  // the last block
  out.bits(1, 2);  // fixed Huffman codes
  for (const Token& token : tokens) {
    if (token.length == 0) {
      write_symbol(out, token.value);
      continue;
    }
    const std::size_t length = code_in(kLengths, token.length);
    write_symbol(out, kEndOfBlock + 1 + static_cast<std::uint32_t>(length));
    out.bits(token.length - std::uint32_t{kLengths[length]}, kLengthBits[length]);
    const std::size_t distance = code_in(kDistances, token.value);
    out.code(static_cast<std::uint32_t>(distance), 5);
    out.bits(token.value - std::uint32_t{kDistances[distance]}, kDistanceBits[distance]);
  }
  write_symbol(out, kEndOfBlock);
}

void append_big_endian(std::string& out, std::uint32_t value) {
  for (const unsigned shift : {24u, 16u, 8u, 0u}) out += static_cast<char>(value >> shift & 0xFF);
}

}  // namespace

std::uint32_t adler32(std::string_view bytes) {
  constexpr std::uint32_t kModulus = 65521;
  constexpr std::size_t kMostBytes = 5552;  // before the sums could overflow
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kMostBytes) {
    for (const char byte : bytes.substr(at, kMostBytes)) b += a += static_cast<unsigned char>(byte);
    a %= kModulus;
    b %= kModulus;
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
  write_block(block, tokens_of(bytes));
  std::string out = "\x78\x01";
  out += block.finish();
  append_big_endian(out, adler32(bytes));
  return out;
}

}  // namespace plimsoll::page

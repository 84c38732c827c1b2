#include "page/deflate.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <queue>
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

// The order in which the code lengths of the code length alphabet are written (RFC 1951, 3.2.7).
constexpr std::array<std::uint8_t, 19> kCodeLengthOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                           11, 4,  12, 3, 13, 2, 14, 1, 15};

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
  std::string finish() {
    if (pending_count_ > 0) bits(0, 8 - pending_count_);
    return std::move(out_);
  }

 private:
  std::string out_;
  std::uint64_t pending_ = 0;
  unsigned pending_count_ = 0;
};

// A Huffman code for symbols with these counts, none longer than `longest` bits.
class Huffman {
 public:
  Huffman(std::vector<std::uint32_t> counts, unsigned longest) {
    // Each round makes rare symbols less rare, until no code is too long.
    while (!set_lengths(counts, longest)) {
      for (std::uint32_t& count : counts) count = count == 0 ? 0 : count / 2 + 1;
    }
    set_codes(longest);
  }

  void write(BitWriter& out, std::size_t symbol) const {
    out.bits(codes_[symbol], lengths_[symbol]);
  }
  const std::vector<unsigned>& lengths() const { return lengths_; }

 private:
  bool set_lengths(const std::vector<std::uint32_t>& counts, unsigned longest) {
    struct Node {
      std::uint64_t count;
      std::size_t parent;
    };
    std::vector<Node> nodes;
    using Entry = std::pair<std::uint64_t, std::size_t>;  // count and node
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    std::vector<std::size_t> leaf_of(counts.size(), counts.size());
    for (std::size_t symbol = 0; symbol < counts.size(); ++symbol) {
      if (counts[symbol] == 0) continue;
      leaf_of[symbol] = nodes.size();
      queue.emplace(counts[symbol], nodes.size());
      nodes.push_back({counts[symbol], 0});
    }
    lengths_.assign(counts.size(), 0);
    while (queue.size() > 1) {
      const auto [low, a] = queue.top();
      queue.pop();
      const auto [high, b] = queue.top();
      queue.pop();
      nodes[a].parent = nodes[b].parent = nodes.size();
      queue.emplace(low + high, nodes.size());
      nodes.push_back({low + high, 0});
    }
    for (std::size_t symbol = 0; symbol < counts.size(); ++symbol) {
      if (leaf_of[symbol] == counts.size()) continue;
      std::size_t node = leaf_of[symbol];
      for (; nodes[node].parent != 0; node = nodes[node].parent) ++lengths_[symbol];
      if (lengths_[symbol] == 0) lengths_[symbol] = 1;  // the only symbol
      if (lengths_[symbol] > longest) return false;
    }
    return true;
  }
  // RFC 1951, 3.2.2; the highest bit comes first.
  void set_codes(unsigned longest) {
    codes_.assign(lengths_.size(), 0);
    std::uint32_t code = 0;
    for (unsigned length = 1; length <= longest; ++length, code <<= 1) {
      for (std::size_t symbol = 0; symbol < lengths_.size(); ++symbol) {
        if (lengths_[symbol] != length) continue;
        for (unsigned i = 0; i < length; ++i) {
          codes_[symbol] |= (code >> i & 1) << (length - 1 - i);
        }
        ++code;
      }
    }
  }

  std::vector<unsigned> lengths_;
  std::vector<std::uint32_t> codes_;
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

constexpr std::size_t kEndOfBlock = 256;
constexpr std::size_t kSymbols = 286;

// Writes the lengths of both codes, Huffman-coded themselves: RFC 1951, 3.2.7, without its
// repetitions.
void write_codes(BitWriter& out, const Huffman& symbols, const Huffman& distances) {
  std::vector<unsigned> lengths = symbols.lengths();
  lengths.insert(lengths.end(), distances.lengths().begin(), distances.lengths().end());
  std::vector<std::uint32_t> counts(kCodeLengthOrder.size(), 0);
  for (const unsigned length : lengths) ++counts[length];
  const Huffman code(std::move(counts), 7);
  out.bits(static_cast<std::uint32_t>(symbols.lengths().size() - 257), 5);
  out.bits(static_cast<std::uint32_t>(distances.lengths().size() - 1), 5);
  out.bits(static_cast<std::uint32_t>(kCodeLengthOrder.size() - 4), 4);
  for (const std::uint8_t length : kCodeLengthOrder) out.bits(code.lengths()[length], 3);
  for (const unsigned length : lengths) code.write(out, length);
}

void write_block(BitWriter& out, const std::vector<Token>& tokens) {
  std::vector<std::uint32_t> symbol_counts(kSymbols, 0);
  std::vector<std::uint32_t> distance_counts(kDistances.size(), 0);
  symbol_counts[kEndOfBlock] = 1;
  distance_counts[0] = distance_counts[1] = 1;  // a code of one symbol would be incomplete
  for (const Token& token : tokens) {
    ++symbol_counts[token.length == 0 ? token.value : 257 + code_in(kLengths, token.length)];
    if (token.length != 0) ++distance_counts[code_in(kDistances, token.value)];
  }
  const Huffman symbols(std::move(symbol_counts), 15);
  const Huffman distances(std::move(distance_counts), 15);
  out.bits(1, 1);  // the last block
  out.bits(2, 2);  // dynamic Huffman codes
  write_codes(out, symbols, distances);
  for (const Token& token : tokens) {
    if (token.length == 0) {
      symbols.write(out, token.value);
      continue;
    }
    const std::size_t length = code_in(kLengths, token.length);
    symbols.write(out, 257 + length);
    out.bits(token.length - std::uint32_t{kLengths[length]}, kLengthBits[length]);
    const std::size_t distance = code_in(kDistances, token.value);
    distances.write(out, distance);
    out.bits(token.value - std::uint32_t{kDistances[distance]}, kDistanceBits[distance]);
  }
  symbols.write(out, kEndOfBlock);
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

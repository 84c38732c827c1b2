// Decodes PNG as Plimsoll writes it (RGB, one block with its own Huffman codes, no filters),
// checking every checksum, so that tests can examine pixels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::tests {

struct PngImage {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> bytes;  // three per pixel

  std::array<int, 3> pixel(std::size_t x, std::size_t y) const {
    const std::size_t at = (y * width + x) * 3;
    return {bytes[at], bytes[at + 1], bytes[at + 2]};
  }
};

class PngReader {
 public:
  explicit PngReader(std::string_view file) : file_(file) {}

  // "" if the file is whole and correct.
  std::string read(PngImage& image) {
    if (!file_.starts_with("\x89PNG\r\n\x1A\n")) return "no signature";
    std::string data;
    bool has_ended = false;
    for (std::size_t at = 8; at < file_.size();) {
      if (has_ended || at + 12 > file_.size()) return "bytes after the end";
      const std::size_t length = number(at);
      if (at + 12 + length > file_.size()) return "a chunk is cut short";
      const std::string_view type = file_.substr(at + 4, 4);
      const std::string_view body = file_.substr(at + 8, length);
      if (number(at + 8 + length) != slow_crc(file_.substr(at + 4, length + 4))) return "bad CRC";
      if (type == "IHDR") {
        image.width = number(at + 8);
        image.height = number(at + 12);
        if (body.substr(8) != std::string_view("\x08\x02\0\0\0", 5)) return "not 8-bit RGB";
      }
      if (type == "IDAT") data += body;
      has_ended = type == "IEND";
      at += 12 + length;
    }
    if (!has_ended) return "no end";
    return decode(data, image);
  }

 private:
  std::uint32_t number(std::size_t at) const {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
      value = value << 8 | static_cast<unsigned char>(file_[i]);
    }
    return value;
  }
  // Computed bit by bit, to be independent of the tables under test.
  static std::uint32_t slow_crc(std::string_view bytes) {
    std::uint32_t crc = ~0u;
    for (const char byte : bytes) {
      crc ^= static_cast<unsigned char>(byte);
      for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return ~crc;
  }

  std::uint32_t bits(unsigned count) {
    std::uint32_t value = 0;
    for (unsigned i = 0; i < count; ++i, ++bit_) {
      if (bit_ / 8 >= stream_.size()) {
        is_short_ = true;
        return 0;
      }
      value |= (static_cast<unsigned char>(stream_[bit_ / 8]) >> bit_ % 8 & 1u) << i;
    }
    return value;
  }
  // A canonical Huffman code: the symbols by length of their code, then by number.
  struct Code {
    std::vector<unsigned> lengths;
    std::array<std::uint32_t, 16> counts{};  // by length
    std::vector<std::uint32_t> symbols;

    // False unless the lengths use every code exactly once.
    bool prepare() {
      std::uint32_t used = 0;
      for (unsigned length = 1; length <= 15; ++length) {
        for (std::uint32_t symbol = 0; symbol < lengths.size(); ++symbol) {
          if (lengths[symbol] != length) continue;
          ++counts[length];
          symbols.push_back(symbol);
          used += 1u << (15 - length);
        }
      }
      return used == 1u << 15;
    }
  };
  std::uint32_t symbol(const Code& code) {
    std::uint32_t value = 0;
    std::uint32_t first = 0;  // the first code of this length
    std::uint32_t index = 0;  // its symbol
    for (unsigned length = 1; length <= 15; ++length) {
      value |= bits(1);
      if (value - first < code.counts[length]) return code.symbols[index + value - first];
      index += code.counts[length];
      first = (first + code.counts[length]) << 1;
      value <<= 1;
    }
    is_short_ = true;  // there is no such code
    return 0;
  }
  std::uint32_t length_of(std::uint32_t symbol) {
    if (symbol == 285) return 258;
    const std::uint32_t code = symbol - 257;
    if (code < 8) return code + 3;
    const unsigned extra = code / 4 - 1;
    return ((4 + code % 4) << extra) + 3 + bits(extra);
  }
  std::uint32_t distance(const Code& distances) {
    const std::uint32_t code = symbol(distances);
    if (code < 4) return code + 1;
    const unsigned extra = code / 2 - 1;
    return ((2 + code % 2) << extra) + 1 + bits(extra);
  }

  // RFC 1951, 3.2.6: the codes follow from their lengths alone.
  static bool fixed_codes(Code& symbols, Code& distances) {
    symbols.lengths.assign(288, 8);
    std::fill(symbols.lengths.begin() + 144, symbols.lengths.begin() + 256, 9u);
    std::fill(symbols.lengths.begin() + 256, symbols.lengths.begin() + 280, 7u);
    distances.lengths.assign(32, 5);
    return symbols.prepare() && distances.prepare();
  }

  std::string decode(std::string_view data, PngImage& image) {
    if (data.size() < 6 || (data[0] * 256 + data[1]) % 31 != 0) return "no zlib header";
    stream_ = data.substr(2, data.size() - 6);
    if (bits(1) != 1 || bits(2) != 1) return "not one block with the fixed codes";
    Code symbols;
    Code distances;
    if (!fixed_codes(symbols, distances)) return "an incomplete code";
    std::string rows;
    while (!is_short_) {
      const std::uint32_t next = symbol(symbols);
      if (next == 256) break;
      if (next < 256) {
        rows += static_cast<char>(next);
        continue;
      }
      const std::uint32_t length = length_of(next);
      const auto back = static_cast<std::ptrdiff_t>(distance(distances));
      if (back > std::ssize(rows)) return "a match before the start";
      const std::size_t begin = rows.size();
      rows.resize(begin + length);
      char* const to = rows.data() + begin;
      for (std::uint32_t i = 0; i < length; ++i) to[i] = to[static_cast<std::ptrdiff_t>(i) - back];
    }
    if (is_short_ || (bit_ + 7) / 8 != stream_.size()) return "the stream has another length";
    std::uint32_t a = 1;
    std::uint32_t b = 0;
    for (const char byte : rows) {
      a = (a + static_cast<unsigned char>(byte)) % 65521;
      b = (b + a) % 65521;
    }
    std::uint32_t sum = 0;
    for (const char byte : data.substr(data.size() - 4)) {
      sum = sum << 8 | static_cast<unsigned char>(byte);
    }
    if (sum != (b << 16 | a)) return "bad Adler-32";
    return take_rows(rows, image);
  }
  static std::string take_rows(std::string_view rows, PngImage& image) {
    const std::size_t row_bytes = image.width * 3;
    if (rows.size() != (row_bytes + 1) * image.height) return "rows of another size";
    for (std::size_t y = 0; y < image.height; ++y) {
      const std::string_view row = rows.substr(y * (row_bytes + 1), row_bytes + 1);
      if (row[0] != 0) return "another filter";
      image.bytes.insert(image.bytes.end(), row.data() + 1, row.data() + row.size());
    }
    return {};
  }

  std::string_view file_;
  std::string_view stream_;
  std::size_t bit_ = 0;
  bool is_short_ = false;
};

inline std::string png_flaw(std::string_view file) {
  PngImage image;
  return PngReader(file).read(image);
}

}  // namespace plimsoll::tests

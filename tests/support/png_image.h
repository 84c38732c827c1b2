// Decodes PNG as Plimsoll writes it (RGB, one block with fixed Huffman codes), checking every
// checksum, so that tests can examine pixels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::tests {

struct PngImage {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<std::uint8_t> bytes;  // three a pixel

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
  // Bit by bit, to be independent of the tables under test.
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
  std::uint32_t code_bits(std::uint32_t value, unsigned count) {
    for (unsigned i = 0; i < count; ++i) value = value << 1 | bits(1);
    return value;
  }
  std::uint32_t symbol() {
    const std::uint32_t seven = code_bits(0, 7);
    if (seven < 24) return 256 + seven;
    const std::uint32_t eight = code_bits(seven, 1);
    if (eight >= 0x30 && eight < 0xC0) return eight - 0x30;
    if (eight >= 0xC0 && eight < 0xC8) return 280 + eight - 0xC0;
    return 144 + code_bits(eight, 1) - 0x190;
  }
  std::uint32_t length_of(std::uint32_t symbol) {
    if (symbol == 285) return 258;
    const std::uint32_t code = symbol - 257;
    if (code < 8) return code + 3;
    const unsigned extra = code / 4 - 1;
    return ((4 + code % 4) << extra) + 3 + bits(extra);
  }
  std::uint32_t distance() {
    const std::uint32_t code = code_bits(0, 5);
    if (code < 4) return code + 1;
    const unsigned extra = code / 2 - 1;
    return ((2 + code % 2) << extra) + 1 + bits(extra);
  }

  std::string decode(std::string_view data, PngImage& image) {
    if (data.size() < 6 || (data[0] * 256 + data[1]) % 31 != 0) return "no zlib header";
    stream_ = data.substr(2, data.size() - 6);
    if (bits(1) != 1 || bits(2) != 1) return "not one fixed block";
    std::string rows;
    while (!is_short_) {
      const std::uint32_t next = symbol();
      if (next == 256) break;
      if (next < 256) {
        rows += static_cast<char>(next);
        continue;
      }
      const std::uint32_t length = length_of(next);
      const std::size_t back = distance();
      if (back > rows.size()) return "a match before the start";
      for (std::uint32_t i = 0; i < length; ++i) rows += rows[rows.size() - back];
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
    return unfilter(rows, image);
  }
  static std::string unfilter(std::string_view rows, PngImage& image) {
    const std::size_t row_bytes = image.width * 3;
    if (rows.size() != (row_bytes + 1) * image.height) return "rows of another size";
    for (std::size_t y = 0; y < image.height; ++y) {
      const std::string_view row = rows.substr(y * (row_bytes + 1), row_bytes + 1);
      if (row[0] != 2) return "another filter";
      for (std::size_t i = 0; i < row_bytes; ++i) {
        const int above = y == 0 ? 0 : image.bytes[(y - 1) * row_bytes + i];
        image.bytes.push_back(static_cast<std::uint8_t>(row[i + 1] + above));
      }
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

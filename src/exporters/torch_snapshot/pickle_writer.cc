#include "exporters/torch_snapshot/pickle_writer.h"

#include <bit>
#include <utility>

#include "base/utf8.h"

namespace plimsoll::exporters::torch_snapshot {
namespace {

constexpr std::size_t kFrameBytes = 1 << 16;
constexpr std::uint32_t kBatchItems = 1000;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The bytes of the first character; 0 if Python cannot decode it. Python's pickles store file names
// that are not UTF-8 with lone surrogates, so these are accepted.
std::size_t decodable_length(std::string_view text) {
  const std::size_t len = base::utf8_sequence_length(text);
  if (len != 0 || text.size() < 3) return len;
  auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const bool is_surrogate = at(0) == 0xED && at(1) >= 0xA0 && at(1) <= 0xBF && (at(2) >> 6) == 2;
  return is_surrogate ? 3 : 0;
}

std::size_t decodable_prefix(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::size_t len = decodable_length(text.substr(end));
    if (len == 0) break;
    end += len;
  }
  return end;
}

std::string decodable(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t good = decodable_prefix(text);
    clean += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    clean += kReplacement;
    text.remove_prefix(1);
  }
  return clean;
}

}  // namespace

PickleWriter::PickleWriter(Output& output) : output_(output) {
  status_ = output_.write("\x80\x04");
}

void PickleWriter::list() {
  buffer_ += ']';
  batches_.push_back(0);
}

void PickleWriter::item() {
  if (buffer_.size() >= kFrameBytes) flush();
  std::uint32_t& batch = batches_.back();
  if (batch == kBatchItems) {
    buffer_ += 'e';
    batch = 0;
  }
  if (batch++ == 0) buffer_ += '(';
}

void PickleWriter::end_list() {
  if (batches_.back() > 0) buffer_ += 'e';
  batches_.pop_back();
}

void PickleWriter::little_endian(std::uint64_t value, std::size_t len) {
  for (std::size_t i = 0; i < len; ++i) buffer_ += static_cast<char>((value >> (8 * i)) & 0xFF);
}

// LONG1: two's complement in the fewest bytes that keep the sign.
void PickleWriter::long_integer(std::uint64_t low, std::uint8_t sign_byte) {
  std::size_t len = 8;
  auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(low >> (8 * i)); };
  auto keeps_sign = [&](std::size_t top) { return (byte(top) & 0x80) == (sign_byte & 0x80); };
  while (len > 1 && byte(len - 1) == sign_byte && keeps_sign(len - 2)) --len;
  const bool needs_ninth = !keeps_sign(len - 1);
  buffer_ += '\x8a';
  buffer_ += static_cast<char>(len + (needs_ninth ? 1 : 0));
  little_endian(low, len);
  if (needs_ninth) buffer_ += static_cast<char>(sign_byte);
}

void PickleWriter::integer(std::uint64_t value) {
  if (value <= 0xFF) {
    buffer_ += 'K';
    little_endian(value, 1);
  } else if (value <= 0xFFFF) {
    buffer_ += 'M';
    little_endian(value, 2);
  } else if (value <= 0x7FFFFFFF) {
    buffer_ += 'J';
    little_endian(value, 4);
  } else {
    long_integer(value, 0x00);
  }
}

void PickleWriter::integer(std::int64_t value) {
  if (value >= 0) {
    integer(static_cast<std::uint64_t>(value));
  } else if (value >= INT32_MIN) {
    buffer_ += 'J';
    little_endian(static_cast<std::uint64_t>(value), 4);
  } else {
    long_integer(static_cast<std::uint64_t>(value), 0xFF);
  }
}

void PickleWriter::real(double value) {  // big-endian, unlike other numbers in pickles
  const auto bits = std::bit_cast<std::uint64_t>(value);
  buffer_ += 'G';
  for (int shift = 56; shift >= 0; shift -= 8) buffer_ += static_cast<char>((bits >> shift) & 0xFF);
}

void PickleWriter::string(std::string_view text) {
  if (decodable_prefix(text) != text.size()) return string(decodable(text));
  if (text.size() <= 0xFF) {
    buffer_ += '\x8c';
    little_endian(text.size(), 1);
  } else if (text.size() <= 0xFFFFFFFF) {
    buffer_ += 'X';
    little_endian(text.size(), 4);
  } else {
    buffer_ += '\x8d';
    little_endian(text.size(), 8);
  }
  buffer_ += text;
}

void PickleWriter::remember(std::uint32_t place) {
  buffer_ += place <= 0xFF ? 'q' : 'r';
  little_endian(place, place <= 0xFF ? 1 : 4);
}

void PickleWriter::recall(std::uint32_t place) {
  buffer_ += place <= 0xFF ? 'h' : 'j';
  little_endian(place, place <= 0xFF ? 1 : 4);
}

void PickleWriter::flush() {
  std::string header = "\x95";
  for (int i = 0; i < 8; ++i) {
    header += static_cast<char>((std::uint64_t{buffer_.size()} >> (8 * i)) & 0xFF);
  }
  if (status_.ok()) status_ = output_.write(header);
  if (status_.ok()) status_ = output_.write(buffer_);
  buffer_.clear();
}

Status PickleWriter::finish() {
  buffer_ += '.';
  flush();
  return std::move(status_);
}

}  // namespace plimsoll::exporters::torch_snapshot

#include "readers/torch_snapshot/html_source.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::readers::torch_snapshot {
namespace {

constexpr std::string_view kBefore = "\"base64\"";

constexpr std::array<std::int8_t, 256> make_digits() {
  std::array<std::int8_t, 256> digits{};
  digits.fill(-1);
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    digits[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  }
  return digits;
}
constexpr auto kDigits = make_digits();

class HtmlSource final : public ByteSource {
 public:
  explicit HtmlSource(ByteSource& page) : page_(page), text_(1 << 16) {}

  Result<std::size_t> read(std::span<std::byte> into) override {
    if (!found_) PLIMSOLL_TRY(find_text());
    std::size_t written = 0;
    while (written < into.size() && !ended_) {
      if (at_ == size_) {
        if (written > 0) break;
        PLIMSOLL_TRY(refill());
        if (size_ == 0)
          return make_error(ErrorCode::kCorrupt, "the page is truncated inside its base64 data");
      }
      const char c = static_cast<char>(text_[at_++]);
      ++offset_;
      if (c == '"') {
        ended_ = true;
      } else if (c != '=') {
        const std::int8_t digit = kDigits[static_cast<unsigned char>(c)];
        if (digit < 0) {
          return make_error(ErrorCode::kCorrupt,
                            "the page's base64 data is damaged at byte " + std::to_string(offset_));
        }
        bits_ = bits_ << 6 | static_cast<std::uint32_t>(digit);
        bit_count_ += 6;
        if (bit_count_ >= 8) {
          bit_count_ -= 8;
          into[written++] = static_cast<std::byte>(bits_ >> bit_count_ & 0xFF);
        }
      }
    }
    return written;
  }
  std::uint64_t size_hint() const override { return page_.size_hint() / 4 * 3; }

 private:
  Status refill() {
    PLIMSOLL_TRY_ASSIGN(size_, page_.read(text_));
    at_ = 0;
    return {};
  }

  Result<char> next() {
    if (at_ == size_) PLIMSOLL_TRY(refill());
    if (size_ == 0) {
      return make_error(ErrorCode::kUnsupported,
                        "this HTML page has no memory snapshot: there is no \"base64\" data in it");
    }
    ++offset_;
    return static_cast<char>(text_[at_++]);
  }

  // Skips past `"base64": "`.
  Status find_text() {
    std::size_t matched = 0;
    while (matched < kBefore.size()) {
      PLIMSOLL_TRY_ASSIGN(const char c, next());
      matched = c == kBefore[matched] ? matched + 1 : (c == kBefore[0] ? 1 : 0);
    }
    for (;;) {
      PLIMSOLL_TRY_ASSIGN(const char c, next());
      if (c == '"') break;
      if (c != ':' && c != ' ' && c != '\t' && c != '\n' && c != '\r') {
        return make_error(ErrorCode::kUnsupported,
                          "this HTML page has no memory snapshot as trace_plot writes it");
      }
    }
    found_ = true;
    return {};
  }

  ByteSource& page_;
  std::vector<std::byte> text_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::uint64_t offset_ = 0;
  std::uint32_t bits_ = 0;
  int bit_count_ = 0;
  bool found_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> unpack_html(ByteSource& page) {
  return std::make_unique<HtmlSource>(page);
}

}  // namespace plimsoll::readers::torch_snapshot

#include "base/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/utf8.h"

namespace plimsoll::base {
namespace {

constexpr std::size_t kFlushBytes = 1 << 16;

void append_escape(std::string& text, std::uint32_t unit) {
  static constexpr char kHex[] = "0123456789abcdef";
  text += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) text += kHex[unit >> shift & 15];
}

// As UTF-16 code units, as required by JSON's \u escapes.
void append_escaped(std::string& text, std::uint32_t point) {
  if (point >= 0x10000) {
    append_escape(text, 0xD800 + ((point - 0x10000) >> 10));
    point = 0xDC00 + (point & 0x3FF);
  }
  append_escape(text, point);
}

}  // namespace

JsonWriter::JsonWriter(Sink sink, Style style) : sink_(std::move(sink)), style_(style) {}

JsonWriter::~JsonWriter() { finish(); }

bool JsonWriter::finish() {
  if (!buffer_.empty() && ok_) ok_ = sink_(buffer_);
  buffer_.clear();
  return ok_;
}

void JsonWriter::raw(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kFlushBytes) finish();
}

void JsonWriter::newline() {
  if (style_ == Style::kCompact) return;
  buffer_ += '\n';
  buffer_.append(scopes_.size() * 2, ' ');
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (scopes_.empty()) return;
  if (!first_in_scope_) raw(",");
  first_in_scope_ = false;
  newline();
}

void JsonWriter::begin_object() {
  before_value();
  raw("{");
  scopes_.push_back('{');
  first_in_scope_ = true;
}

void JsonWriter::end_object() {
  scopes_.pop_back();
  if (!first_in_scope_) newline();
  raw("}");
  first_in_scope_ = false;
}

void JsonWriter::begin_array() {
  before_value();
  raw("[");
  scopes_.push_back('[');
  first_in_scope_ = true;
}

void JsonWriter::end_array() {
  scopes_.pop_back();
  if (!first_in_scope_) newline();
  raw("]");
  first_in_scope_ = false;
}

void JsonWriter::key(std::string_view name) {
  before_value();
  escaped(name);
  raw(style_ == Style::kCompact ? ":" : ": ");
  after_key_ = true;
}

void JsonWriter::string(std::string_view text) {
  before_value();
  escaped(text);
}

void JsonWriter::number(std::int64_t value) {
  before_value();
  std::array<char, 24> digits{};
  auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  raw({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

void JsonWriter::number(std::uint64_t value) {
  before_value();
  std::array<char, 24> digits{};
  auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  raw({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

void JsonWriter::number(double value) {
  if (!std::isfinite(value)) return null();
  before_value();
  std::array<char, 32> digits{};
  auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  raw({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

void JsonWriter::boolean(bool value) {
  before_value();
  raw(value ? "true" : "false");
}

void JsonWriter::null() {
  before_value();
  raw("null");
}

void JsonWriter::escaped(std::string_view text) {
  buffer_ += '"';
  std::size_t at = 0;
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x80) {
      const std::size_t len = utf8_sequence_length(text.substr(at));
      if (len == 0) {
        buffer_ += "\xEF\xBF\xBD";
      } else if (const std::string_view character = text.substr(at, len);
                 is_unprintable(code_point(character))) {
        append_escaped(buffer_, code_point(character));
      } else {
        buffer_ += character;
      }
      at += len == 0 ? 1 : len;
      continue;
    }
    switch (byte) {
      case '"':
        buffer_ += "\\\"";
        break;
      case '\\':
        buffer_ += "\\\\";
        break;
      case '\n':
        buffer_ += "\\n";
        break;
      case '\r':
        buffer_ += "\\r";
        break;
      case '\t':
        buffer_ += "\\t";
        break;
      default:
        if (is_unprintable(byte)) {
          append_escaped(buffer_, byte);
        } else {
          buffer_ += static_cast<char>(byte);
        }
    }
    ++at;
  }
  raw("\"");
}

std::string json_text(const std::function<void(JsonWriter&)>& write) {
  std::string text;
  JsonWriter json(
      [&](std::string_view piece) {
        text += piece;
        return true;
      },
      JsonWriter::Style::kIndented);
  write(json);
  json.finish();
  return text + "\n";
}

}  // namespace plimsoll::base

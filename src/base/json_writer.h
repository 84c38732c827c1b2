// JsonWriter streams one JSON document into a string-like sink, in order, without building a tree.
// The output is valid JSON for any input bytes: strings are escaped, bytes that are not UTF-8
// become U+FFFD, and doubles that JSON cannot express (nan, inf) become null. The writer also adds
// commas and indentation.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::base {

class JsonWriter {
 public:
  enum class Style : std::uint8_t { kCompact, kIndented };
  // Receives finished pieces of text. Returns false when it accepts no more (disk full, closed
  // pipe); later output is discarded.
  using Sink = std::function<bool(std::string_view)>;

  explicit JsonWriter(Sink sink, Style style = Style::kCompact);
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;
  ~JsonWriter();

  void begin_object();
  void end_object();
  void begin_array();
  void end_array();
  void key(std::string_view name);

  void string(std::string_view text);
  void number(std::int64_t value);
  void number(std::uint64_t value);
  void number(double value);
  void boolean(bool value);  // a JSON boolean value
  void null();

  // Flushes; returns false if the sink rejected anything.
  bool finish();
  bool ok() const { return ok_; }

 private:
  void before_value();
  void newline();
  void raw(std::string_view text);
  void escaped(std::string_view text);

  Sink sink_;
  Style style_;
  std::string buffer_;
  std::vector<char> scopes_;  // '{' or '['
  bool first_in_scope_ = true;
  bool after_key_ = false;
  bool ok_ = true;
};

// Returns the output of `write`, indented, with a newline at its end.
std::string json_text(const std::function<void(JsonWriter&)>& write);

}  // namespace plimsoll::base

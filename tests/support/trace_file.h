// A trace file in memory, written by the encoder, and read again into values: for tests of whatever
// writes or reads trace files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "format/decoder.h"
#include "format/encoder.h"

namespace plimsoll::tests {

// Collects what an encoder writes.
class TraceFile final : public format::BlockOutput {
 public:
  TraceFile() : bytes_(format::kPreludeBytes) { format::Encoder::prelude(bytes_.data()); }

  void write(const format::FinishedBlock& block) noexcept override {
    blocks_.push_back({bytes_.size(), block.kind});
    bytes_.insert(bytes_.end(), block.bytes.begin(), block.bytes.end());
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  struct Place {
    std::size_t offset;
    format::BlockKind kind;
  };
  const std::vector<Place>& blocks() const { return blocks_; }

 private:
  std::vector<std::byte> bytes_;
  std::vector<Place> blocks_;
};

using AnyEvent = std::variant<format::Alloc, format::Free, format::Tag, format::SetPhase,
                              format::Mark, format::Dropped, format::Evicted, format::FreeRequested,
                              format::Segment, format::OutOfMemory, format::DeviceFigure>;

// Every field of a record as text: equal text, equal record.
struct RecordText {
  using S = std::string;
  static S n(auto value) { return " " + std::to_string(value); }
  S operator()(const format::Alloc& e) const {
    return "alloc" + n(e.time_ns) + n(e.thread) + n(e.site) + n(e.serial) + n(e.address) +
           n(e.size_bytes) + n(e.is_adopted) + n(e.slack_bytes);
  }
  S operator()(const format::Free& e) const {
    return "free" + n(e.time_ns) + n(e.thread) + n(e.serial) + n(e.address) + n(e.in_op);
  }
  S operator()(const format::FreeRequested& e) const {
    return "free_requested" + n(e.time_ns) + n(e.thread) + n(e.serial) + n(e.in_op);
  }
  S operator()(const format::Segment& e) const {
    return "segment" + n(e.time_ns) + n(e.thread) + n(e.site) + n(e.action) + n(e.device) +
           n(e.address) + n(e.size_bytes);
  }
  S operator()(const format::OutOfMemory& e) const {
    return "out_of_memory" + n(e.time_ns) + n(e.thread) + n(e.site) + n(e.size_bytes) +
           n(e.device_free_bytes) + n(e.limit_bytes) + n(e.device_total_bytes);
  }
  S operator()(const format::DeviceFigure& e) const {
    return "device_figure" + n(e.time_ns) + n(e.device) + n(e.figure) + n(e.value) + n(e.pid) +
           n(e.name);
  }
  S operator()(const format::Tag& e) const { return "tag" + n(e.serial) + n(e.tensor); }
  S operator()(const format::SetPhase& e) const { return "set_phase" + n(e.serial) + n(e.phase); }
  S operator()(const format::Mark& e) const {
    return "mark" + n(e.time_ns) + n(e.thread) + n(e.kind) + n(e.value);
  }
  S operator()(const format::Dropped& e) const {
    return "dropped" + n(e.time_ns) + n(e.thread) + n(e.count);
  }
  S operator()(const format::Evicted& e) const { return "evicted" + n(e.count); }
  S operator()(const format::Site& s) const {
    return n(s.layer) + n(s.outer_op) + n(s.inner_op) + n(s.forward_op) + n(s.stack) + n(s.phase) +
           n(s.device) + (s.stream + s.pool == 0 ? S() : n(s.stream) + n(s.pool));
  }
  S operator()(const format::Tensor& t) const {
    return n(t.role) + n(t.name) + n(t.dtype) + n(t.shape);
  }
};

inline std::string text_of(const AnyEvent& event) { return std::visit(RecordText{}, event); }

inline void encode(format::Encoder& encoder, const AnyEvent& event) {
  struct Give {
    format::Encoder& encoder;
    void operator()(const format::Alloc& e) const { encoder.alloc(e); }
    void operator()(const format::Free& e) const { encoder.free(e); }
    void operator()(const format::FreeRequested& e) const { encoder.free_requested(e); }
    void operator()(const format::Segment& e) const { encoder.segment(e); }
    void operator()(const format::OutOfMemory& e) const { encoder.out_of_memory(e); }
    void operator()(const format::DeviceFigure& e) const { encoder.device_figure(e); }
    void operator()(const format::Tag& e) const { encoder.tag(e); }
    void operator()(const format::SetPhase& e) const { encoder.set_phase(e); }
    void operator()(const format::Mark& e) const { encoder.mark(e); }
    void operator()(const format::Dropped& e) const { encoder.dropped(e); }
    void operator()(const format::Evicted& e) const { encoder.evicted(e); }
  };
  std::visit(Give{encoder}, event);
}

// What a file says, definitions and events apart, each as text.
struct ReadBack : format::NoRecords {
  void on_alloc(const format::Alloc& e) { event(e); }
  void on_free(const format::Free& e) { event(e); }
  void on_free_requested(const format::FreeRequested& e) { event(e); }
  void on_segment(const format::Segment& e) { event(e); }
  void on_out_of_memory(const format::OutOfMemory& e) { event(e); }
  void on_device_figure(const format::DeviceFigure& e) { event(e); }
  void on_tag(const format::Tag& e) { event(e); }
  void on_set_phase(const format::SetPhase& e) { event(e); }
  void on_mark(const format::Mark& e) { event(e); }
  void on_dropped(const format::Dropped& e) { event(e); }
  void on_evicted(const format::Evicted& e) { event(e); }

  void on_process(const format::Process& p) {
    define("process" + n(p.pid) + n(p.rank) + n(p.started_ns));
  }
  void on_meta(std::string_view key, std::string_view value) {
    define("meta " + std::string(key) + "=" + std::string(value));
  }
  void on_name(std::uint32_t id, std::string_view text) {
    define("name" + n(id) + " " + std::string(text));
  }
  void on_stack(std::uint32_t id, std::span<const format::Frame> frames) {
    define(stack_text(id, frames));
  }
  void on_site(std::uint32_t id, const format::Site& site) {
    define("site" + n(id) + RecordText{}(site));
  }
  void on_tensor(std::uint32_t id, const format::Tensor& tensor) {
    define("tensor" + n(id) + RecordText{}(tensor));
  }
  void on_device(std::uint8_t id, const format::Device& device) {
    define("device" + n(id) + n(device.type) + n(device.ordinal));
  }
  void on_setting(const format::Setting& setting) {
    define("setting" + n(setting.name) + n(setting.type) + n(setting.value));
  }
  void on_notice(const format::Notice& notice) {
    define("notice" + n(notice.notice) + n(notice.device) + n(notice.count) + n(notice.text));
  }
  void on_end(const format::End& end) { ends.push_back(n(end.time_ns) + n(end.events)); }

  static std::string n(auto value) { return " " + std::to_string(value); }
  static std::string stack_text(std::uint32_t id, std::span<const format::Frame> frames) {
    std::string text = "stack" + n(id);
    for (const auto& frame : frames) {
      text += ";" + n(frame.file) + n(frame.function) + n(frame.line);
    }
    return text;
  }
  void event(const AnyEvent& e) { events.push_back(text_of(e)); }
  void define(std::string text) { definitions.push_back(std::move(text)); }

  std::vector<std::string> definitions;
  std::vector<std::string> events;
  std::vector<std::string> ends;
};

struct ReadFile {
  ReadBack read;
  format::BlockStream::Kind kind{};
  format::Damage damage;
  bool is_ended = false;
  std::uint64_t unknown_records = 0;
};

// Pushes `bytes` in pieces of `piece` bytes.
inline ReadFile read_file(std::span<const std::byte> bytes, std::size_t piece = SIZE_MAX) {
  ReadFile file;
  format::Decoder<ReadBack> decoder(file.read);
  while (!bytes.empty()) {
    const std::size_t count = std::min(piece, bytes.size());
    // A copy of exactly this size: a read beyond it is one that the sanitizer sees.
    const std::vector<std::byte> copy(bytes.begin(),
                                      bytes.begin() + static_cast<std::ptrdiff_t>(count));
    decoder.push(copy);
    bytes = bytes.subspan(count);
  }
  decoder.finish();
  file.kind = decoder.kind();
  file.damage = decoder.damage();
  file.is_ended = decoder.is_ended();
  file.unknown_records = decoder.unknown_records();
  return file;
}

}  // namespace plimsoll::tests

#include "generator/pickle_writer.h"

#include <bit>
#include <cstdlib>

namespace generator {
namespace {

constexpr size_t kFrameTargetBytes = 64 * 1024;
constexpr uint64_t kBatchSize = 1000;

}  // namespace

PickleWriter::PickleWriter(std::FILE* file, Dialect dialect) : file_(file), dialect_(dialect) {
  frame_.reserve(2 * kFrameTargetBytes);
  const char protocol[] = {'\x80', static_cast<char>(dialect == Dialect::kPython ? 4 : 2)};
  std::fwrite(protocol, 1, sizeof protocol, file_);
  flushed_bytes_ = sizeof protocol;
}

uint64_t PickleWriter::finish() {
  code('.');
  flush_frame();
  return flushed_bytes_;
}

void PickleWriter::flush_frame() {
  if (dialect_ == Dialect::kPython) {
    char header[9] = {'\x95'};
    for (int i = 0; i < 8; ++i)
      header[i + 1] = static_cast<char>(static_cast<uint64_t>(frame_.size()) >> (8 * i));
    flushed_bytes_ += std::fwrite(header, 1, sizeof header, file_);
  }
  flushed_bytes_ += std::fwrite(frame_.data(), 1, frame_.size(), file_);
  frame_.clear();
}

// CPython checks whether the frame is full only when it starts to save an object.
void PickleWriter::object_starts() {
  if (frame_.size() >= kFrameTargetBytes) flush_frame();
}

void PickleWriter::little_endian(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) frame_.push_back(static_cast<char>(value >> (8 * i)));
}

MemoId PickleWriter::memoize() {
  if (dialect_ == Dialect::kPython) {
    code('\x94');
  } else if (next_memo_ < 256) {
    code('q');
    little_endian(next_memo_, 1);
  } else {
    code('r');
    little_endian(next_memo_, 4);
  }
  return next_memo_++;
}

void PickleWriter::put_reference(MemoId memo) {
  object_starts();
  if (memo < 256) {
    code('h');
    little_endian(memo, 1);
  } else {
    code('j');
    little_endian(memo, 4);
  }
}

MemoId PickleWriter::put_text(std::string_view text) {
  object_starts();
  if (dialect_ == Dialect::kPython && text.size() < 256) {
    code('\x8c');
    little_endian(text.size(), 1);
  } else {
    code('X');
    little_endian(text.size(), 4);
  }
  frame_.append(text);
  return memoize();
}

void PickleWriter::put(Interned& text) {
  if (text.memo != kNoMemo) {
    put_reference(text.memo);
    return;
  }
  if (dialect_ == Dialect::kJit) {
    put_fresh(text.text);
    text.memo = texts_by_value_.at(text.text);
  } else {
    text.memo = put_text(text.text);
  }
}

void PickleWriter::put_fresh(std::string_view text) {
  if (dialect_ == Dialect::kPython && text.empty()) {
    put(empty_);
    return;
  }
  if (dialect_ == Dialect::kPython) {
    put_text(text);
    return;
  }
  const std::string key(text);
  if (const auto found = texts_by_value_.find(key); found != texts_by_value_.end()) {
    put_reference(found->second);
  } else {
    texts_by_value_.emplace(key, put_text(text));
  }
}

void PickleWriter::put(int64_t value) {
  object_starts();
  if (value >= 0 && value <= 0xFF) {
    code('K');
    little_endian(static_cast<uint64_t>(value), 1);
  } else if (value >= 0 && value <= 0xFFFF) {
    code('M');
    little_endian(static_cast<uint64_t>(value), 2);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    code('J');
    little_endian(static_cast<uint64_t>(value), 4);
  } else {
    // LONG1 is two's complement in the fewest bytes that keep the sign; the JIT pickler always
    // takes eight.
    int bytes = 8;
    if (dialect_ == Dialect::kPython) {
      const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
      bytes = static_cast<int>(std::bit_width(magnitude)) / 8 + 1;
    }
    code('\x8a');
    little_endian(static_cast<uint64_t>(bytes), 1);
    little_endian(static_cast<uint64_t>(value), bytes);
  }
}

void PickleWriter::put_unsigned(uint64_t value) {
  if (value <= INT64_MAX ||
      dialect_ == Dialect::kJit) {  // C++ stores an address as int64_t, negative or not
    put(static_cast<int64_t>(value));
    return;
  }
  object_starts();
  code('\x8a');
  little_endian(9, 1);
  little_endian(value, 8);
  little_endian(0, 1);
}

void PickleWriter::put_constant(char opcode) {
  object_starts();
  code(opcode);
}

void PickleWriter::put_double(double value) {
  object_starts();
  code('G');
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int i = 7; i >= 0; --i) frame_.push_back(static_cast<char>(bits >> (8 * i)));
}

void PickleWriter::put_pair(int64_t first, int64_t second) {
  object_starts();
  put(first);
  put(second);
  code('\x86');
  if (dialect_ == Dialect::kPython) memoize();
}

void PickleWriter::begin(char opcode, uint64_t count) {
  object_starts();
  code(opcode);
  Container container{.count = count,
                      .append_code = static_cast<uint8_t>(opcode == ']' ? 'e' : 'u')};
  if (dialect_ == Dialect::kPython) {
    container.memo = memoize();
    if (count > 1) code('(');
  } else {
    code('(');
  }
  open_.push_back(container);
}

void PickleWriter::next_item() {
  Container& container = open_.back();
  if (dialect_ == Dialect::kPython && container.written != 0 &&
      container.written % kBatchSize == 0) {
    code(static_cast<char>(container.append_code));
    code('(');
  }
  ++container.written;
}

MemoId PickleWriter::end(char single, char batch, Sharing sharing) {
  const Container container = open_.back();
  open_.pop_back();
  if (container.written != container.count) {
    std::fprintf(stderr, "pickle_writer: promised %llu items, wrote %llu\n",
                 static_cast<unsigned long long>(container.count),
                 static_cast<unsigned long long>(container.written));
    std::abort();
  }
  if (dialect_ == Dialect::kJit) {
    code(batch);
    return sharing == Sharing::kShared ? memoize() : kNoMemo;
  }
  if (container.count == 1) code(single);
  if (container.count > 1) code(batch);
  return container.memo;
}

}  // namespace generator

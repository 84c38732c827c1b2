// Writes pickles of plain data to a file, byte for byte as one of PyTorch's two picklers:
//   kPython  CPython's C pickler, protocol 4: frames of about 64 KiB, MEMOIZE after every string,
//            list, dict and tuple, containers filled in batches of 1000.
//   kJit     torch::jit::Pickler, protocol 2: strings memoised by value with BINPUT, containers in
//            one batch and memoised only if shared, after their contents.
// Memory is bounded by one frame plus the distinct interned strings. Not thread-safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace generator {

enum class Dialect : uint8_t { kPython, kJit };

/// Whether the pickle refers to a container again: the JIT pickler memoises only those.
enum class Sharing : uint8_t { kUnique, kShared };

using MemoId = uint32_t;
inline constexpr MemoId kNoMemo = 0xFFFFFFFF;

/// A string object, such as a key, that is written once and then referred to.
struct Interned {
  std::string text;
  MemoId memo = kNoMemo;
};

class PickleWriter {
 public:
  PickleWriter(std::FILE* file, Dialect dialect);

  /// Writes STOP and the remaining bytes to the file. Returns the size of the pickle in bytes.
  uint64_t finish();

  void put(Interned& text);
  /// A new string object (the JIT pickler shares equal strings nevertheless).
  void put_fresh(std::string_view text);
  void put(int64_t value);
  void put_unsigned(uint64_t value);
  void put_true() { put_constant('\x88'); }
  void put_false() { put_constant('\x89'); }
  void put_double(double value);
  void put_reference(MemoId memo);
  void put_pair(int64_t first, int64_t second);

  /// Containers nest: call begin, then for each of `count` items (or key and value pairs) next_item
  /// and its puts, then end.
  void begin_list(uint64_t count) { begin(']', count); }
  void begin_dict(uint64_t count) { begin('}', count); }
  void next_item();
  MemoId end_list(Sharing sharing) { return end('a', 'e', sharing); }
  MemoId end_dict(Sharing sharing) { return end('s', 'u', sharing); }

 private:
  struct Container {
    uint64_t count;
    uint64_t written = 0;
    MemoId memo = kNoMemo;
    uint8_t append_code;
  };

  void begin(char opcode, uint64_t count);
  MemoId end(char single, char batch, Sharing sharing);
  void object_starts();
  void put_constant(char opcode);
  void flush_frame();
  void code(char opcode) { frame_.push_back(opcode); }
  void little_endian(uint64_t value, int bytes);
  MemoId memoize();
  MemoId put_text(std::string_view text);

  std::FILE* file_;
  Dialect dialect_;
  std::string frame_;
  uint64_t flushed_bytes_ = 0;
  MemoId next_memo_ = 0;
  std::vector<Container> open_;
  Interned empty_;                                          // CPython has one empty string
  std::unordered_map<std::string, MemoId> texts_by_value_;  // kJit only
};

}  // namespace generator

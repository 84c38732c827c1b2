// pickle_to_json: prints a pickle as the pickle machine reads it, for tests/test_pickle_machine.py.
// The record maker recognizes nothing, so every dict and list stays as it is.
//
// Reads requests from standard input, "SIZE WINDOW\n" and SIZE bytes of pickle, and answers each
// with one line: ["ok", VALUE] or ["error", CODE, SENTENCE]. Values:
//
//   null true false  ["int", "12"]  ["int"] (beyond 64 bits)  ["float", "3ff0000000000000"]
//   ["str", "text"]  ["bytes"]  ["tuple", VALUE...]  ["list", VALUE...]  ["dict", KEY, VALUE...]

#include <array>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_writer.h"
#include "readers/byte_source.h"
#include "readers/torch_snapshot/pickle_machine.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::readers::torch_snapshot;

class NoRecords final : public RecordMaker {
 public:
  Value from_dict(std::span<const Value>, PickleArena&) override {
    return {Tag::kFreshDict, kNoMemo, 0};
  }
  Value from_list(std::span<const Value>, PickleArena&) override {
    return {Tag::kFreshList, kNoMemo, 0};
  }
  bool extend(Value&, std::span<const Value>, PickleArena&) override { return false; }
  Items to_items(const Value&, const PickleArena&) const override { return {}; }
  std::uint64_t memory_bytes() const override { return 0; }
};

class Printer {
 public:
  Printer(base::JsonWriter& json, const model::StringTable& strings, const PickleArena& arena)
      : json_(json), strings_(strings), arena_(arena) {}

  void print(const Value& value) {
    switch (value.tag) {
      case Tag::kNone:
        return json_.null();
      case Tag::kBool:
        return json_.boolean(value.bits != 0);
      case Tag::kInt:
        return word("int", std::to_string(value.as_int()));
      case Tag::kUint:
        return word("int", std::to_string(value.bits));
      case Tag::kFloat:
        return word("float", hexadecimal(value.bits));
      case Tag::kString:
        return word("str", strings_[value.as_string()]);
      case Tag::kPair: {
        const auto& [first, second] = arena_.pairs[value.bits];
        begin("tuple");
        word("int", std::to_string(first));
        word("int", std::to_string(second));
        return json_.end_array();
      }
      case Tag::kTuple:
        return items("tuple", arena_.lists[value.bits]);
      case Tag::kList:
        return items("list", arena_.lists[value.bits]);
      case Tag::kDict:
        begin("dict");
        for (const auto& [key, mapped] : arena_.dicts[value.bits]) {
          print(key);
          print(mapped);
        }
        return json_.end_array();
      case Tag::kEmptyList:
      case Tag::kFreshList:
        return items("list", {});
      case Tag::kEmptyDict:
      case Tag::kFreshDict:
        return items("dict", {});
      case Tag::kHugeInt:
        return items("int", {});
      case Tag::kBytes:
        return items("bytes", {});
      case Tag::kFrame:
      case Tag::kStack:
      case Tag::kEvent:
      case Tag::kEventRange:
      case Tag::kBlock:
        return items("record", {});
    }
  }

 private:
  void begin(const char* kind) {
    json_.begin_array();
    json_.string(kind);
  }
  void word(const char* kind, std::string_view text) {
    begin(kind);
    json_.string(text);
    json_.end_array();
  }
  void items(const char* kind, std::span<const Value> values) {
    begin(kind);
    for (const Value& value : values) print(value);
    json_.end_array();
  }
  static std::string hexadecimal(std::uint64_t bits) {
    std::array<char, 20> text{};
    std::snprintf(text.data(), text.size(), "%016" PRIx64, bits);
    return text.data();
  }

  base::JsonWriter& json_;
  const model::StringTable& strings_;
  const PickleArena& arena_;
};

void answer(std::span<const std::byte> pickle, std::size_t window) {
  auto source = readers::view_memory(pickle);
  PickleInput input(*source, window);
  model::StringTable strings;
  PickleArena arena;
  NoRecords records;
  base::Progress progress;
  PickleMachine machine(input, strings, arena, records, progress, MachineLimits{});
  const Result<Value> result = machine.run();

  base::JsonWriter json(
      [](std::string_view text) { return std::fwrite(text.data(), 1, text.size(), stdout) > 0; });
  json.begin_array();
  json.string(result.ok() ? "ok" : "error");
  if (result.ok()) {
    Printer(json, strings, arena).print(*result);
  } else {
    json.string(to_string(result.error().code));
    json.string(result.error().message);
  }
  json.end_array();
  json.finish();
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::size_t size = 0;
  std::size_t window = 0;
  while (std::scanf("%zu %zu", &size, &window) == 2) {
    std::getchar();  // the newline
    std::vector<std::byte> pickle(size);
    if (std::fread(pickle.data(), 1, size, stdin) != size) return 1;
    answer(pickle, window);
  }
  return 0;
}

// Caches ids of operator names. The recorder's name() takes a lock; operators run by the million,
// nearly all with the same text at the same address.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "attachment.h"

namespace plimsoll::libtorch {

struct Name {
  std::uint32_t id = 0;
  // A Python autograd.Function's forward, not a dispatched operator: no namespace.
  bool is_python = false;
  // The engine's frame around an autograd node. Its id is the id of the node's name.
  bool is_node = false;
  const char* text = "";
  // Bit i: argument i may hold tensors that the operator uses (uses.h). Only find() returns a name
  // that keeps it, because operators of the same name may have other arguments.
  static constexpr std::uint64_t kUnknownArguments = ~std::uint64_t{0} - 1;
  // All arguments, and they may be in use after the operator has ended.
  static constexpr std::uint64_t kOutlive = ~std::uint64_t{0} - 2;
  std::uint64_t used_arguments = kUnknownArguments;
};

// Owned by one thread.
class NameCache {
 public:
  Name& find(const char* text) {
    Name& slot = slots_[(reinterpret_cast<std::uintptr_t>(text) >> 3) % kSlots].name;
    const char*& key = slots_[(reinterpret_cast<std::uintptr_t>(text) >> 3) % kSlots].address;
    // Comparing the address is not enough: a short-lived string may have been there before.
    if (key == text && std::strcmp(slot.text, text) == 0) return slot;
    const Name& found = find_text(text);
    if (found.text == kUnkept) return unkept_;
    key = text;
    slot = found;
    return slot;
  }

  // If there is no memory for the cache, the recorder is queried again at the next call.
  const Name& find_text(std::string_view text) noexcept {
    const auto found = by_text_.find(text);
    return found != by_text_.end() ? found->second : add(text);
  }

 private:
  static constexpr std::size_t kSlots = 1024;
  struct Slot {
    const char* address = nullptr;
    Name name;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  [[gnu::noinline]] const Name& add(std::string_view text) noexcept try {
    const auto [entry, is_new] = by_text_.emplace(std::string(text), Name{});
    entry->second = described(text, entry->first.c_str());
    return entry->second;
  } catch (const std::exception&) {
    unkept_ = described(text, kUnkept);
    return unkept_;
  }
  static Name described(std::string_view text, const char* kept) noexcept {
    constexpr std::string_view kNode = "autograd::engine::evaluate_function: ";
    const bool is_node = text.starts_with(kNode);
    if (is_node) text.remove_prefix(kNode.size());
    return {.id = recorder().name(text.data(), text.size()),
            .is_python = !is_node && text.find("::") == std::string_view::npos,
            .is_node = is_node,
            .text = kept};
  }

  static constexpr char kUnkept[] = "";
  Name unkept_;
  std::array<Slot, kSlots> slots_{};
  std::unordered_map<std::string, Name, Hash, std::equal_to<>> by_text_;
};

}  // namespace plimsoll::libtorch

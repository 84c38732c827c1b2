// Which operator runs, read from the return addresses on this thread's stack.
//
// The C++ runtime unwinds a chain of return addresses only once, and its frames are named. From
// then on the chain is recognized: the words that contained its return addresses contain them
// again, at the same distances from the stack pointer. Given an address and the stack pointer, the
// code fixes the size of the frame, so the next address can only be in the next word, and so on
// outwards. In a frame of variable size (alloca), the frame pointer gives the next word, so the
// saved frame pointer is compared as well. Recognizing writes nothing and takes no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace plimsoll::libtorch {

// What a chain of return addresses means.
struct NativeChain {
  std::uint32_t outer_op = 0;  // name ids; 0: no operator
  std::uint32_t inner_op = 0;
  // Distance from the base to the slot with the return address of the outermost operator or, in a
  // backward, of the autograd node; 0: neither runs.
  std::uint32_t anchor = 0;
  std::uint64_t anchor_value = 0;  // that return address
  // The same of the function that Python's code has called. Not proven: compare it.
  std::uint32_t call = 0;
  std::uint64_t call_value = 0;
  bool is_known = false;     // false: an operator may run that the chain does not name
  bool is_in_node = false;   // autograd's engine runs a node
  bool runs_python = false;  // between the operator or node and here
};

// What Python knows about a chain.
struct PythonCalls {
  std::uint32_t handle = 0;    // the operator that the innermost code has called by its handle
  const char* loop = nullptr;  // an address in the frame of the innermost interpreter's loop
  // The operator that the code outside an address of the stack has called by its handle.
  std::uint32_t (*outer_handle)(const char* address) = nullptr;
};

struct FrameMeaning;

// The chains that one thread has met.
class NativeChains {
 public:
  // The chain of the function whose caller had the stack pointer `base` before the call. `tag`:
  // what distinguishes the Python code outside it; the same tag means the same handle and loop.
  const NativeChain& find(const char* base, std::uint64_t tag, const PythonCalls& calls) {
    std::uint64_t key =
        (reinterpret_cast<std::uintptr_t>(base) ^ tag * 0x9E3779B97F4A7C15U) * 0xD6E8FEB86659FD93U;
    key ^= key >> 32U;
    for (std::uint32_t at = heads_[key % kHeads]; at != 0; at = entries_[at].next) {
      if (entries_[at].key == key && holds(entries_[at], base)) [[likely]] {
        return entries_[at].chain;
      }
    }
    return learn(base, key, calls);
  }

 private:
  static constexpr std::size_t kHeads = 4096;
  static constexpr std::size_t kMostEntries = 16384;
  struct Entry {
    std::uint64_t key = 0;
    std::uint32_t next = 0;
    std::uint32_t words = 0;     // position of its first word
    std::uint32_t absolute = 0;  // words with return addresses
    std::uint32_t relative = 0;  // after those: words with addresses of the stack
    NativeChain chain;
  };
  struct Word {
    std::int64_t offset;  // from the base
    std::uint64_t value;  // of a relative word: less the base
  };

  static std::uint64_t read(const char* base, std::int64_t offset) {
    return *reinterpret_cast<const volatile std::uint64_t*>(base + offset);
  }
  bool holds(const Entry& entry, const char* base) const {
    const Word* word = &words_[entry.words];
    const Word* const end = word + entry.absolute;
    for (; word != end; ++word) {
      if (read(base, word->offset) != word->value) return false;
    }
    for (const Word* const last = end + entry.relative; word != last; ++word) {
      if (read(base, word->offset) - reinterpret_cast<std::uintptr_t>(base) != word->value) {
        return false;
      }
    }
    return true;
  }
  struct Unwound;
  const NativeChain& learn(const char* base, std::uint64_t key, const PythonCalls& calls);
  const FrameMeaning& meaning_of(std::uint64_t address);
  NativeChain meaning_of(Unwound& unwound, const char* base, const PythonCalls& calls);
  bool keep(const Unwound& unwound, std::uint64_t key, const NativeChain& chain);

  std::vector<std::uint32_t> heads_ = std::vector<std::uint32_t>(kHeads);
  std::vector<Entry> entries_ = std::vector<Entry>(1);
  std::vector<Word> words_;
  std::unordered_map<std::uint64_t, FrameMeaning> meanings_;  // by return address
  NativeChain unkept_;
};

// Reads the names of torch's operators from the symbols of its libraries, the first time. Returns
// false if they are not there. `boundary`: a function outside of which no operator is looked for.
bool prepare_chains(void (*boundary)());

}  // namespace plimsoll::libtorch

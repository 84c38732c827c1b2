// The tool that takes NVTX in this process, as Nsight Systems does: ranges and marks of a domain of
// ours go to it.
//
// NVTX is a contract, not a library: the tool's library is named by NVTX_INJECTION64_PATH (or
// linked in statically) and fills a table of functions that the program hands to it. We keep the
// table ourselves, so that nothing needs to be installed to build this: docs/decisions/0007.
#pragma once

#include <cstdint>

#include "plimsoll/result.h"

namespace plimsoll::nvtx {

class Nvtx {
 public:
  enum Category : std::uint32_t {
    kPhase = 1,
    kLayer = 2,
    kRegion = 3,
    kStep = 4,
    kMemory = 5,
  };
  // What the tool knows already, or else the text itself, which is never destroyed.
  struct Text {
    const void* kept = nullptr;
    const char* plain = "";
  };

  // Looked for once a process; kUnsupported with a sentence where no tool takes NVTX.
  static Result<const Nvtx*> connect();

  Text keep(const char* text) const noexcept;
  // Ranges of this thread, which nest.
  void push(Category category, Text text) const noexcept;
  void pop() const noexcept;
  // Ranges of the process, which overlap in any way and may end on another thread.
  std::uint64_t start(Category category, const char* text) const noexcept;
  void end(std::uint64_t range) const noexcept;
  void mark(Category category, Text text, std::uint64_t value) const noexcept;

 private:
  Nvtx() noexcept;
  void* domain_ = nullptr;
};

}  // namespace plimsoll::nvtx

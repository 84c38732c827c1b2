// Connects to the tool that reads NVTX in this process, such as Nsight Systems, and sends it the
// ranges and marks of Plimsoll's domain.
//
// NVTX is a calling convention, not a library: the tool's library is named by NVTX_INJECTION64_PATH
// (or linked in statically) and fills in a table of functions that the program passes to it. The
// table is defined here, so that building needs no installed headers (docs/decisions/0007).
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
  // A string registered with the tool, or else the text itself, which is never destroyed.
  struct Text {
    const void* kept = nullptr;
    const char* plain = "";
  };

  // Searches for the tool at the first call. Fails with kUnsupported and a sentence if none reads
  // NVTX.
  static Result<const Nvtx*> connect();

  Text keep(const char* text) const noexcept;
  // Ranges of the calling thread, which nest.
  void push(Category category, Text text) const noexcept;
  void pop() const noexcept;
  // Ranges of the process, which may overlap arbitrarily and end on another thread.
  std::uint64_t start(Category category, const char* text) const noexcept;
  void end(std::uint64_t range) const noexcept;
  void mark(Category category, Text text, std::uint64_t value) const noexcept;

 private:
  Nvtx() noexcept;
  void* domain_ = nullptr;
};

}  // namespace plimsoll::nvtx

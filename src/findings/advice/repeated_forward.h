// Finds the layers of a snapshot, which records no modules: a forward that runs several times in
// one step, as the blocks of a deep model do. Frames show the file, the line and the function, but
// not the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "findings/peak/peak.h"

namespace plimsoll::findings {

struct RepeatedForward {
  std::string place;   // "transformers/models/llama/modeling_llama.py:306 to 322"
  std::string caller;  // "transformers/models/llama/modeling_llama.py:403 (forward)"; may be empty
  std::size_t calls = 0;             // in the step of the peak
  std::uint64_t bytes = 0;           // of the explanation, made by these calls
  std::uint64_t smallest_bytes = 0;  // of a single call
  std::uint64_t largest_bytes = 0;
  std::vector<std::uint32_t> parts;  // rows of Peak::live()
  bool runs_in_checkpoint = false;
  // How much the peak falls if each call of the recording keeps only its last tensor until its
  // backward begins. If no backward follows the peak, the largest call counts as recomputed.
  std::uint64_t saving_bytes = 0;
};

// The innermost forward with most of the bytes that are made repeatedly; empty if there is none.
std::optional<RepeatedForward> repeated_forward(const Peak& peak, const Explanation& explanation);

}  // namespace plimsoll::findings

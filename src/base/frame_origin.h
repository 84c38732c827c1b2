// Where the code of a Python frame is from, by the name of its file.
#pragma once

#include <cstdint>
#include <string_view>

namespace plimsoll::base {

// From the user's own code to what no line is charged to (model/user_line.h).
enum class FrameOrigin : std::uint8_t {
  kUser,
  kText,     // <string>: python -c, and code that packages generate as text
  kLibrary,  // installed packages and the standard library
  kGenerated,
  kTorch,
  kNative
};

FrameOrigin origin_of(std::string_view file);

// The number of a notebook cell as IPython names it: "<ipython-input-2-93c1e0a5f7d8>", or the same
// as a file name. Empty if the file is not a cell.
std::string_view notebook_cell(std::string_view file);

}  // namespace plimsoll::base

// Formats `plimsoll top` as lines of text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "top/view.h"

namespace plimsoll::top {

// The lines have no line ends. None is wider than the settings allow.
std::vector<std::string> top_lines(const TopView& view, const TopSettings& settings);

// The footer of the screen, and the help text that the key ? shows.
std::string top_footer(const TopSettings& settings, bool is_paused);
std::vector<std::string> top_help();

// "GPU Memory: 15.6 GB / 16.0 GB (97%)" for each GPU (with its index if there are several), or the
// host's memory if there is no GPU. 1 GB is 2^30 bytes, as in nvidia-smi.
std::vector<std::string> top_one_liners(const TopView& view);

}  // namespace plimsoll::top

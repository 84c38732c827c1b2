// `plimsoll top` as lines of text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "top/view.h"

namespace plimsoll::top {

// Without line ends; none is wider than the settings say.
std::vector<std::string> top_lines(const TopView& view, const TopSettings& settings);

// What stands under them on a screen, and what the key ? shows instead of them.
std::string top_footer(const TopSettings& settings, bool is_paused);
std::vector<std::string> top_help();

// "GPU Memory: 15.6 GB / 16.0 GB (97%)", one for each GPU (with its index where there are several);
// of the host where there is none. GB are 2^30 bytes, as nvidia-smi counts.
std::vector<std::string> top_one_liners(const TopView& view);

}  // namespace plimsoll::top

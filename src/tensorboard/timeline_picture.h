// A timeline as a picture: live bytes by category, the peaks between samples, and reserved bytes.
#pragma once

#include <string>

#include "tensorboard/timeline.h"

namespace plimsoll::tensorboard {

// A PNG of 520 x 300 points, two pixels each, on a light background. Empty without columns.
std::string timeline_png(const Timeline& timeline);

}  // namespace plimsoll::tensorboard

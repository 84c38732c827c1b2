// The style sheet and the script of the page: page.css and page.js.
#pragma once

#include <string_view>

namespace plimsoll::exporters::html {

extern const std::string_view kStyle;
extern const std::string_view kScript;

}  // namespace plimsoll::exporters::html

// Text from recordings in HTML and SVG. Names of layers, files and tensors are arbitrary bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::page {

// For text, and for attributes in single or double quotes, in HTML and XML. The result is valid
// UTF-8 without characters that XML forbids, or that reorder or hide their neighbors. Each of them,
// and each byte that is not UTF-8, becomes U+FFFD. Tabs and line breaks are kept.
std::string escape_html(std::string_view text);

// Returns at most `most` characters; of a longer text, the first ones and "…". Bytes that are not
// UTF-8 count as one character each.
std::string shortened(std::string_view text, std::size_t most);
// Keeps the last characters instead, for paths.
std::string shortened_front(std::string_view text, std::size_t most);

std::size_t character_count(std::string_view text);

}  // namespace plimsoll::page

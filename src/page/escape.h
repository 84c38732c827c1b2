// Text from recordings in HTML and SVG. Names of layers, files and tensors are arbitrary bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll::page {

// For text and for attributes in double or single quotes, in HTML and in XML. The result is valid
// UTF-8 without characters that XML forbids or that reorder or hide their neighbors: U+FFFD takes
// the place of each of them, and of each byte that is not UTF-8. Tabs and line breaks stay.
std::string escape_html(std::string_view text);

// At most `most` characters: if there are more, the first ones and "…". Bytes that are not UTF-8
// count as one character each.
std::string shortened(std::string_view text, std::size_t most);
// The same with the last ones, for paths.
std::string shortened_front(std::string_view text, std::size_t most);

std::size_t character_count(std::string_view text);

}  // namespace plimsoll::page

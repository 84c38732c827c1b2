// The zlib format, for PNG: one block with Huffman codes of its own, and matches found through a
// table of the places of each four bytes. Charts consist of runs, so that is enough.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::page {

std::string zlib_compressed(std::string_view bytes);

std::uint32_t adler32(std::string_view bytes);
// As PNG and zlib compute it: polynomial 0xEDB88320.
std::uint32_t crc32(std::string_view bytes);

}  // namespace plimsoll::page

// The zlib format, for PNG and PDF: one block with the fixed Huffman codes. Matches are found
// through a table of the places of each four bytes. Charts consist of runs, so that is enough.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::page {

std::string zlib_compressed(std::string_view bytes);

std::uint32_t adler32(std::string_view bytes);
// The CRC of PNG and zlib: polynomial 0xEDB88320.
std::uint32_t crc32(std::string_view bytes);

}  // namespace plimsoll::page

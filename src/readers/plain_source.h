// Opens a file as a source of bytes, decompressed if the file is gzip.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/result.h"
#include "readers/byte_source.h"

namespace plimsoll::readers {

Result<std::unique_ptr<ByteSource>> open_plain(const std::string& path);

}  // namespace plimsoll::readers

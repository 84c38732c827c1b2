// A file's bytes, with gzip taken off.
#pragma once

#include <memory>
#include <string>

#include "plimsoll/result.h"
#include "readers/byte_source.h"

namespace plimsoll::engine {

Result<std::unique_ptr<readers::ByteSource>> open_plain(const std::string& path);

}  // namespace plimsoll::engine

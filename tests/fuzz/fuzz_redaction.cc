// Feeds files to `plimsoll export --redact`. The output is an undamaged recording with the same
// number of events, which can be redacted again.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "accepted.h"
#include "base/check.h"
#include "format/decoder.h"
#include "redaction/redaction.h"

namespace {

using namespace plimsoll;

class Counts : public format::NoRecords {
 public:
  void on_alloc(const format::Alloc&) { ++allocs; }

  std::size_t allocs = 0;
};

struct Content {
  std::size_t allocs = 0;
  std::uint64_t damaged_blocks = 0;
};

Content content_of(std::string_view file) {
  Counts counts;
  format::Decoder<Counts> decoder(counts);
  decoder.push(std::as_bytes(std::span(file)));
  decoder.finish();
  return {counts.allocs, decoder.damage().blocks};
}

// False if the file cannot be redacted.
bool redact(std::string_view file, std::string& out) {
  const int descriptor = memfd_create("recording", 0);
  PLIMSOLL_CHECK(descriptor >= 0);
  PLIMSOLL_CHECK(write(descriptor, file.data(), file.size()) == static_cast<ssize_t>(file.size()));
  const auto done =
      redaction::redact("/proc/self/fd/" + std::to_string(descriptor), [&](std::string_view bytes) {
        out += bytes;
        return true;
      });
  close(descriptor);
  return done.ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  std::string first, second;
  if (!redact(file, first)) return 0;
  if (content_of(file).allocs > 0) fuzz::accept();
  PLIMSOLL_CHECK(content_of(first).damaged_blocks <= content_of(file).damaged_blocks);
  PLIMSOLL_CHECK(content_of(first).allocs == content_of(file).allocs);
  PLIMSOLL_CHECK(redact(first, second));
  PLIMSOLL_CHECK(content_of(second).allocs == content_of(file).allocs);
  return 0;
}

// A digest from anywhere, compared with itself and with nothing: sums are exact, and nothing
// differs from itself.
#include <cstddef>
#include <cstdint>
#include <string>

#include "accepted.h"
#include "base/check.h"
#include "comparison/diff.h"
#include "comparison/digest_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace plimsoll;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto digest = comparison::parse_digest(text, "digest.json");
  if (!digest) return 0;
  fuzz::accept();
  report::Digest empty = *digest;
  empty.rows.clear();
  for (report::DigestPoint& point : empty.points) point.bytes = 0;
  PLIMSOLL_CHECK(comparison::compare(*digest, *digest).growth_bytes() == 0);
  comparison::compare(empty, *digest);
  comparison::compare(*digest, empty);
  return 0;
}

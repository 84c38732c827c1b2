#include "comparison/row_facts.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace plimsoll::comparison {
namespace {

constexpr double kAlikeRatio = 0.03;  // e.g. a sequence and its shifted copy: 48 / 32, 47 / 31
constexpr std::uint64_t kGpuRounding = 512;  // bytes of a block in PyTorch's CUDA allocator

// "[8, 65, 96]" -> 49,920; 0 if it is not a shape.
std::uint64_t elements_in(std::string_view shape) {
  std::uint64_t elements = shape.empty() ? 0 : 1;
  for (const char* at = shape.data(); at != shape.data() + shape.size(); ++at) {
    std::uint64_t size = 0;
    const auto parsed = std::from_chars(at, shape.data() + shape.size(), size);
    if (parsed.ec != std::errc{}) continue;
    elements *= size;
    at = parsed.ptr - 1;
  }
  return elements;
}

bool is_foreach(const report::DigestKey* key) {
  return key != nullptr && key->op.find("_foreach_") != std::string::npos;
}

// Whether the same parameters take other bytes only because a GPU rounds sizes up.
bool is_rounded(const PairAtPoint& row) {
  return !row.after->shape.empty() && row.before->shape == row.after->shape &&
         row.before_count() == row.after_count() &&
         static_cast<std::uint64_t>(std::abs(row.difference())) < kGpuRounding * row.after_count();
}

}  // namespace

bool is_alike(double ratio, double other) { return std::abs(ratio / other - 1) < kAlikeRatio; }

bool is_near(double ratio, double other) { return std::abs(ratio / other - 1) < kSameRatio; }

std::string dtype_in(const report::DigestKey& key, const report::DigestRow& row) {
  if (!key.dtype.empty()) return key.dtype;
  const std::uint64_t elements = elements_in(row.shape);
  if (key.category != "activation" || elements == 0 || row.largest_bytes % elements != 0) return {};
  const std::uint64_t bits = 8 * (row.largest_bytes / elements);
  return bits > 64 ? std::string() : std::to_string(bits) + "-bit " + key.category;
}

// The shape of a view does not show how many elements its memory has, so the counts must be equal.
bool has_other_dtype(const PairAtPoint& row) {
  if (row.before == nullptr || row.after == nullptr) return false;
  if (elements_in(row.before->shape) != elements_in(row.after->shape)) return false;
  const std::string before = dtype_in(*row.before_key, *row.before);
  const std::string after = dtype_in(*row.after_key, *row.after);
  return !before.empty() && !after.empty() && before != after;
}

bool is_now_foreach(const PairAtPoint& row) {
  return is_foreach(row.after_key) && !is_foreach(row.before_key);
}

bool is_resized_parameter(const PairAtPoint& row) {
  return is_on_both(row) && row.key().category == "parameter" && !is_rounded(row) &&
         row.before->instance_bytes != row.after->instance_bytes &&
         row.before_count() * row.after->instances == row.after_count() * row.before->instances;
}

bool is_scaled(const PairAtPoint& row, double factor) {
  const double size = largest_ratio(row);
  const double times =
      static_cast<double>(row.after_count()) / static_cast<double>(row.before_count());
  const auto is_one_or_factor = [&](double ratio) {
    return is_near(ratio, 1) || is_alike(ratio, factor);
  };
  return is_alike(ratio(row), factor) || (is_one_or_factor(size) && is_one_or_factor(times));
}

bool is_larger(const report::DigestRow* row, const report::DigestKey* other) {
  return row != nullptr && other != nullptr && other->most_bytes &&
         static_cast<std::int64_t>(row->largest_bytes) > *other->most_bytes;
}

}  // namespace plimsoll::comparison

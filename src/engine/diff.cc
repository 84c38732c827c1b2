#include "plimsoll/diff.h"

#include <utility>

#include "base/fields.h"
#include "base/json_writer.h"
#include "comparison/diff.h"
#include "engine/digest_input.h"
#include "exporters/terminal/diff.h"

namespace plimsoll {

std::string Difference::json() const {
  return base::json_text([&](base::JsonWriter& json) { base::write_json(json, *diff_); });
}

std::string Difference::text(std::size_t width, bool has_color) const {
  exporters::terminal::TextOptions options;
  options.width = width;
  options.color = has_color ? text::Color::kOn : text::Color::kOff;
  return exporters::terminal::to_text(*diff_, options);
}

std::int64_t Difference::growth_bytes() const { return diff_->growth_bytes(); }

bool Difference::is_incomplete() const { return diff_->is_incomplete(); }

Result<Difference> diff(const std::string& before, const std::string& after,
                        const DiffQuestion& question, const ProgressCallback& progress) {
  PLIMSOLL_TRY_ASSIGN(report::Digest first, engine::digest_of(before, progress));
  PLIMSOLL_TRY_ASSIGN(const report::Digest second, engine::digest_of(after, progress));
  PLIMSOLL_TRY_ASSIGN(comparison::Diff result,
                      engine::compare_digests(std::move(first), second, question));
  return Difference(std::make_shared<const comparison::Diff>(std::move(result)));
}

}  // namespace plimsoll

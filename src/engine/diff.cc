#include "plimsoll/diff.h"

#include <utility>

#include "base/fields.h"
#include "base/json_writer.h"
#include "comparison/diff.h"
#include "engine/digest_input.h"
#include "exporters/terminal/diff.h"
#include "report/report.h"

namespace plimsoll {
namespace {

Result<report::Digest> digest_of(const std::string& path, const ProgressCallback& progress) {
  PLIMSOLL_TRY_ASSIGN(const auto digest, engine::read_digest(path));
  if (digest) return *digest;
  PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(path, {progress}));
  Question question;
  question.analyses = {"digest"};
  PLIMSOLL_TRY_ASSIGN(const Report report, session.ask(question, progress));
  if (report.value().digest.points.empty()) {
    return make_error(ErrorCode::kUnsupported, path + ": no allocation to compare");
  }
  return report.value().digest;
}

Status check_any_point(const comparison::Diff& diff, const report::Digest& before,
                       const std::string& at) {
  if (!diff.points.empty()) return {};
  std::string names;
  for (const report::DigestPoint& point : before.points) {
    if (names.find(point.name) == std::string::npos) {
      names += (names.empty() ? "" : ", ") + point.name;
    }
  }
  return make_error(
      ErrorCode::kInvalidArgument,
      at.empty() ? "the two recordings have no device and point in common"
                 : "not both recordings have the point " + at + "; the first one has " + names);
}

}  // namespace

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
  PLIMSOLL_TRY_ASSIGN(const report::Digest first, digest_of(before, progress));
  PLIMSOLL_TRY_ASSIGN(const report::Digest second, digest_of(after, progress));
  auto result = std::make_shared<const comparison::Diff>(
      comparison::compare(first, second, {.at = question.at, .most_evidence = question.top}));
  PLIMSOLL_TRY(check_any_point(*result, first, question.at));
  return Difference(std::move(result));
}

}  // namespace plimsoll

#include "engine/digest_input.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "comparison/devices.h"
#include "comparison/digest_file.h"
#include "readers/plain_source.h"
#include "report/report.h"

namespace plimsoll::engine {
namespace {

constexpr std::size_t kMostDigestBytes = std::size_t{64} << 20;
constexpr std::size_t kDigestPiece = std::size_t{64} << 10;  // shows whether it is a digest

// The text of the file; nullopt if it is not a digest or cannot be opened.
Result<std::optional<std::string>> digest_text(const std::string& path) {
  // What is read from standard input cannot be read again.
  if (path == "-") return std::optional<std::string>();
  const auto source = readers::open_plain(path);
  if (!source) return std::optional<std::string>();
  std::string text;
  std::vector<std::byte> buffer(kDigestPiece);
  bool is_at_end = false;
  while (!is_at_end) {
    const auto got = (*source)->read(buffer);
    if (!got && text.size() < kDigestPiece) return std::optional<std::string>();
    if (!got) return make_error(got.error().code, path + ": " + got.error().message);
    text.append(reinterpret_cast<const char*>(buffer.data()), *got);
    is_at_end = *got == 0;
    if (!is_at_end && text.size() < kDigestPiece) continue;
    if (!comparison::is_digest(text)) return std::optional<std::string>();
    if (text.size() > kMostDigestBytes) {
      return make_error(ErrorCode::kLimit, path + ": a digest of more than 64 MiB");
    }
  }
  return std::optional(std::move(text));
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

Result<std::optional<report::Digest>> read_digest(const std::string& path) {
  PLIMSOLL_TRY_ASSIGN(const auto text, digest_text(path));
  if (!text) return std::optional<report::Digest>();
  PLIMSOLL_TRY_ASSIGN(report::Digest digest, comparison::parse_digest(*text, path));
  return std::optional(std::move(digest));
}

Result<report::Digest> digest_of(const Session& session, const std::string& path,
                                 const ProgressCallback& progress) {
  Question question;
  question.analyses = {"digest"};
  PLIMSOLL_TRY_ASSIGN(const Report report, session.ask(question, progress));
  if (report.value().digest.points.empty()) {
    return make_error(ErrorCode::kUnsupported, path + ": no allocation to compare");
  }
  return report.value().digest;
}

Result<report::Digest> digest_of(const std::string& path, const ProgressCallback& progress) {
  PLIMSOLL_TRY_ASSIGN(const auto digest, read_digest(path));
  if (digest) return *digest;
  PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(path, {progress}));
  return digest_of(session, path, progress);
}

Result<comparison::Diff> compare_digests(report::Digest before, const report::Digest& after,
                                         const DiffQuestion& question) {
  const std::string pairing = comparison::pair_devices(before, after);
  comparison::Diff diff = comparison::compare(before, after,
                                              {.at = question.at,
                                               .most_evidence = question.top,
                                               .compares_devices_of_one = pairing.empty()});
  if (!pairing.empty()) diff.notes.insert(diff.notes.begin(), pairing);
  PLIMSOLL_TRY(check_any_point(diff, before, question.at));
  return diff;
}

}  // namespace plimsoll::engine

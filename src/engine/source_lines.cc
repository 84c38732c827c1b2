#include "engine/source_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <optional>
#include <utility>

#include "base/utf8.h"

namespace plimsoll::engine {
namespace {

constexpr std::int64_t kMostBytes = 4 << 20;
constexpr std::int64_t kSecond = 1'000'000'000;

// The program had loaded its source by this time: the recording's start, else its first event.
std::int64_t begin_of(const model::Trace& trace) {
  std::int64_t begin = trace.started_ns;
  if (begin != model::kNoTime) return begin;
  for (const model::DeviceTrace& device : trace.devices) {
    if (device.events.size() == 0) continue;
    const std::int64_t first = device.events.time_ns[0];
    if (first == model::kNoTime) continue;
    begin = begin == model::kNoTime ? first : std::min(begin, first);
  }
  return begin;
}

class File {
 public:
  // O_NONBLOCK: a FIFO must not block the report.
  explicit File(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (file_ >= 0) ::close(file_);
  }

  // nullopt if it is not a regular file, is too large, or was modified at or after this time.
  std::optional<std::string> text_of_before(std::int64_t time_ns) const {
    struct stat is{};
    if (file_ < 0 || ::fstat(file_, &is) != 0 || !S_ISREG(is.st_mode)) return std::nullopt;
    if (is.st_size > kMostBytes || changed_ns(is) >= time_ns) return std::nullopt;
    std::string text(static_cast<std::size_t>(is.st_size), '\0');
    std::size_t size = 0;
    while (size < text.size()) {
      const ssize_t got = ::read(file_, text.data() + size, text.size() - size);
      if (got <= 0) break;
      size += static_cast<std::size_t>(got);
    }
    text.resize(size);
    return text;
  }

 private:
  static std::int64_t changed_ns(const struct stat& is) {
    constexpr std::int64_t kMostSeconds = std::numeric_limits<std::int64_t>::max() / kSecond - 1;
    return std::clamp<std::int64_t>(is.st_mtim.tv_sec, 0, kMostSeconds) * kSecond +
           is.st_mtim.tv_nsec;
  }

  int file_;
};

// Empty if the line is not UTF-8.
std::string visible(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const std::size_t size = base::utf8_sequence_length(line);
    if (size == 0) return {};
    const std::string_view character = line.substr(0, size);
    line.remove_prefix(size);
    if (character == "\t") {
      text += ' ';
    } else if (!base::is_unprintable(base::code_point(character))) {
      text += character;
    }
  }
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

bool begins_with_name(std::string_view text, std::string_view name) {
  if (!text.starts_with(name)) return false;
  const std::string_view rest = text.substr(name.size());
  return rest.empty() || (rest[0] != '_' && std::isalnum(static_cast<unsigned char>(rest[0])) == 0);
}

// "def forward(" or "class Net:", indented or not.
bool defines(std::string_view line, std::string_view name) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  for (const std::string_view word : {"async def ", "def ", "class "}) {
    if (line.starts_with(word)) return begins_with_name(line.substr(word.size()), name);
  }
  return false;
}

}  // namespace

void SourceLines::find_places() {
  if (std::exchange(has_places_, true)) return;
  std::vector<bool> is_done(lines_.line_count());
  for (std::uint32_t row = 0; row < trace_.stacks.stack_count(); ++row) {
    const model::StackId stack{row};
    const std::size_t line = lines_.line(stack).index();
    if (lines_.why(stack) != model::NoLine::kHasLine || is_done[line]) continue;
    is_done[line] = true;
    const model::Frame& frame = trace_.stacks.frame(lines_.frame(stack));
    if (frame.line == model::kUnknownLine || frame.line == 0) continue;
    const auto [place, is_new] = places_.try_emplace(
        lines_.label(stack), Place{std::string(trace_.strings[frame.file]),
                                   std::string(trace_.strings[frame.function]), frame.line});
    if (!is_new && place->second.file != trace_.strings[frame.file]) {
      place->second.is_ambiguous = true;
    }
  }
}

const SourceLines::FileLines& SourceLines::lines_of(const std::string& file) {
  const auto [found, is_new] = files_.try_emplace(file);
  if (!is_new || !file.starts_with('/') || !file.ends_with(".py")) return found->second;
  const std::int64_t begin_ns = begin_of(trace_);
  if (begin_ns == model::kNoTime || file.find('\0') != std::string::npos) return found->second;
  const std::optional<std::string> text = File(file).text_of_before(begin_ns);
  for (std::size_t at = 0; text && at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    found->second.push_back(text->substr(at, end - at));
    at = end + 1;
  }
  return found->second;
}

std::string SourceLines::text_of(const std::string& label) {
  find_places();
  const auto found = places_.find(label);
  if (found == places_.end() || found->second.is_ambiguous) return {};
  const Place& place = found->second;
  const FileLines& lines = lines_of(place.file);
  if (place.line > lines.size()) return {};
  const std::string name = place.function.substr(place.function.rfind('.') + 1);
  const auto end = lines.begin() + place.line;
  const bool is_named = !name.empty() && !name.starts_with('<');
  if (is_named && std::none_of(lines.begin(), end,
                               [&](const std::string& line) { return defines(line, name); })) {
    return {};
  }
  return visible(lines[place.line - 1]);
}

}  // namespace plimsoll::engine

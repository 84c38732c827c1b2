#include "cli/runs/latest_recording.h"

#include <string>
#include <utility>
#include <vector>

#include "cli/line/terminal.h"
#include "logs/file_search.h"

namespace plimsoll::cli {
namespace {

// A redacted copy is newer than its recording, and says less.
bool is_recording_name(const std::string& name) {
  return name.ends_with(".plim") && !name.ends_with(".redacted.plim");
}

Result<std::string> latest_recording() {
  const logs::SearchLimits limits;
  const logs::FoundFiles found = logs::find_files(".", is_recording_name, limits);
  const logs::FoundFile* const newest = found.newest();
  if (newest == nullptr) {
    return make_error(ErrorCode::kNotFound,
                      "latest: there is no recording *.plim in the current folder or up to " +
                          std::to_string(limits.depth) + " levels below" +
                          (found.is_complete ? "" : ", as far as searched") +
                          ": record one with plimsoll run, or name the file");
  }
  std::string path = newest->path.lexically_normal().string();
  complain("latest is " + path +
           (found.is_complete ? ""
                              : "; there are too many files to search them all, and a newer one "
                                "may exist"));
  return path;
}

}  // namespace

Status name_latest(const Command& command, Arguments& arguments) {
  for (const Positional& positional : command.positionals) {
    if (positional.takes != Takes::kRecording) continue;
    std::vector<std::string> words = arguments.values(positional.name);
    for (std::string& word : words) {
      if (word != "latest") continue;
      PLIMSOLL_TRY_ASSIGN(word, latest_recording());
    }
    arguments.set(positional.name, std::move(words));
  }
  return {};
}

}  // namespace plimsoll::cli

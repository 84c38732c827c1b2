#include "cli/runs/recorded_run.h"

#include <filesystem>
#include <system_error>

#include "cli/runs/child_process.h"

namespace plimsoll::cli {

Result<int> record_run(const std::vector<std::string>& arguments, const std::string& folder,
                       const std::string& trace) {
  std::error_code error;
  // With a run log, the program does not print how to open the recording, which is temporary.
  std::vector<std::string> words = {"env",
                                    "PLIMSOLL_RUN_LOG=" + trace + ".log",
                                    std::filesystem::read_symlink("/proc/self/exe", error).string(),
                                    "run",
                                    "-o",
                                    trace};
  words.insert(words.end(), arguments.begin(), arguments.end());
  PLIMSOLL_TRY_ASSIGN(const int status, run_with_output_on_stderr(words, folder));
  return status;
}

void shorten_places(const std::string& folder, report::Digest& digest) {
  const std::filesystem::path full(folder);
  const std::string last = full.filename().string() + "/";
  const std::string two = full.parent_path().filename().string() + "/" + last;
  for (report::DigestKey& key : digest.keys) {
    for (const std::string& prefix : {full.string() + "/", two, last}) {
      if (!key.place.starts_with(prefix)) continue;
      key.place.erase(0, prefix.size());
      break;
    }
  }
}

}  // namespace plimsoll::cli

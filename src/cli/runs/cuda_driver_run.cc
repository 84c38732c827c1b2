#include "cli/runs/cuda_driver_run.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/line/exit_code.h"
#include "cli/line/terminal.h"
#include "cli/runs/child_process.h"
#include "cli/runs/run_log.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kLibrary = "libplimsoll_cuda_driver.so";

// PLIMSOLL_CUDA_LIBRARY, or next to this command, or in the Python package that contains it.
std::string find_library() {
  std::error_code error;
  if (const char* chosen = std::getenv("PLIMSOLL_CUDA_LIBRARY"); chosen != nullptr) {
    // An absolute path, because programs change their working directory.
    return std::filesystem::absolute(chosen, error).string();
  }
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
  for (const std::string place :
       {"/", "/../plimsoll/", "/../lib/plimsoll/", "/../lib*/python3*/site-packages/plimsoll/",
        "/../lib*/python3*/dist-packages/plimsoll/"}) {
    glob_t found{};
    std::string path;
    if (::glob((folder + place + kLibrary).c_str(), 0, nullptr, &found) == 0) {
      path = std::filesystem::weakly_canonical(found.gl_pathv[0], error).string();
    }
    ::globfree(&found);
    if (!path.empty()) return path;
  }
  return {};
}

// Prints what was recorded. Returns kFine, or the exit code for why nothing was recorded.
int report_driver_run(const RunLog& log, const std::string& program) {
  for (const std::string& why : log.failures) complain("nothing was recorded: " + why);
  if (!log.is_loaded) {
    complain(kLibrary + std::string(" could not be loaded into ") + program +
             " (the linker preloads nothing into programs that are statically linked, "
             "setuid, or of another architecture): nothing was recorded");
    return kUsageError;
  }
  if (log.recordings.empty() && !log.failures.empty()) return kInternalError;
  if (log.recordings.empty()) {
    complain(program + " never requested memory from the CUDA driver: nothing was recorded");
    return kUsageError;
  }
  print_recordings(log.recordings);
  return kFine;
}

// The dynamic linker splits LD_PRELOAD at spaces and colons.
void preload(const std::string& library) {
  const char* before = std::getenv("LD_PRELOAD");
  const std::string list = before != nullptr && *before != '\0' ? std::string(before) + ":" : "";
  ::setenv("LD_PRELOAD", (list + library).c_str(), 1);
}

}  // namespace

int run_with_cuda_driver(const std::string& path, const std::vector<std::string>& program) {
  const std::string library = find_library();
  struct stat there{};
  const bool is_file = ::stat(library.c_str(), &there) == 0 && S_ISREG(there.st_mode);
  if (!is_file || ::access(library.c_str(), R_OK) != 0) {
    if (std::getenv("PLIMSOLL_CUDA_LIBRARY") != nullptr) {
      complain("PLIMSOLL_CUDA_LIBRARY='" + library + "' is not a file that can be read");
      return kUsageError;
    }
    complain(std::string("there is no ") + kLibrary +
             " next to this command (it is built only on Linux); PLIMSOLL_CUDA_LIBRARY can name "
             "another path");
    return kUsageError;
  }
  if (library.find_first_of(" :") != std::string::npos) {
    complain("the linker cannot preload " + library +
             ": its path has a space or a colon; PLIMSOLL_CUDA_LIBRARY can name a copy elsewhere");
    return kUsageError;
  }
  RunLog log;
  if (!log.is_made()) {
    complain("cannot create " + log.path() + ": " + std::strerror(errno) +
             "; TMPDIR can name another folder");
    return kUsageError;
  }
  ::setenv("PLIMSOLL_CUDA_OUT", path.c_str(), 1);
  ::setenv("PLIMSOLL_CUDA_PROCESSES", log.path().c_str(), 1);
  preload(library);
  const auto status = run_and_forward_signals(program);
  if (!status) return complain(status.error());
  log.read();
  const int ours = report_driver_run(log, program.front());
  return *status != 0 ? *status : ours;
}

}  // namespace plimsoll::cli

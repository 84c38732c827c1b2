#include "cli/cuda_driver_run.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/units.h"
#include "cli/child_process.h"
#include "cli/exit_code.h"
#include "cli/terminal.h"
#include "engine/session_state.h"
#include "plimsoll/session.h"
#include "report/text_words.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kLibrary = "libplimsoll_cuda_driver.so";
constexpr std::size_t kMostTold = 8;  // recordings of one run

// $PLIMSOLL_CUDA_LIBRARY, or beside this command, or in the Python package that it came with.
std::string find_library() {
  std::error_code error;
  if (const char* chosen = std::getenv("PLIMSOLL_CUDA_LIBRARY"); chosen != nullptr) {
    return std::filesystem::absolute(chosen, error).string();  // programs change their folder
  }
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
  for (const std::string place : {"/", "/../plimsoll/", "/../lib*/python3*/site-packages/plimsoll/",
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

// Where the library writes who was there: "loaded PID", "recording PID PATH", "failed PID WHY".
class Roll {
 public:
  Roll() {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") +
            "/plimsoll-cuda-XXXXXX";
    const int file = ::mkstemp(path_.data());
    is_made_ = file >= 0;
    if (is_made_) ::close(file);
  }
  Roll(const Roll&) = delete;
  Roll& operator=(const Roll&) = delete;
  ~Roll() {
    if (is_made_) ::unlink(path_.c_str());
  }

  bool is_made() const { return is_made_; }
  const std::string& path() const { return path_; }

  void read() {
    std::ifstream lines(path_);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string word;
      std::string process;
      std::string rest;
      words >> word >> process;
      std::getline(words >> std::ws, rest);
      is_loaded = is_loaded || word == "loaded";
      if (word == "recording") recordings.push_back(rest);
      if (word == "failed") failures.push_back(rest);
    }
  }

  bool is_loaded = false;
  std::vector<std::string> recordings;
  std::vector<std::string> failures;

 private:
  std::string path_;
  bool is_made_ = false;
};

std::string shown(const std::string& path) {
  std::error_code error;
  const std::string near = std::filesystem::relative(path, error).string();
  return error || near.empty() || near.starts_with("..") ? path : near;
}

// What a recording says, in one line; of a killed program, too.
std::string summary_of(const std::string& path) {
  const std::string name = shown(path);
  OpenOptions options;
  options.top = SIZE_MAX / 2;  // every line of the table of sites, to count them all
  const auto session = Session::open(path, options);
  if (!session) return session.error().message;
  const report::Report& told = session->state().report;
  std::uint64_t allocations = 0;
  for (const report::SiteRow& row : told.tables.sites) allocations += row.allocations;
  std::string peaks;
  std::size_t failed = 0;
  for (const report::DeviceReport& device : told.devices) {
    failed += device.ooms.size();
    if (device.events == 0) continue;
    peaks += (peaks.empty() ? ", peak " : ", ") + base::format_bytes(device.held().peak_bytes) +
             " on " + report::device_name(device);
  }
  return name + ": " + base::format_count(allocations) +
         (allocations == 1 ? " allocation" : " allocations") + peaks +
         (failed > 0 ? ", out of memory: " + base::format_count(failed) : "") +
         "; see it with: plimsoll report " + name;
}

void tell(const Roll& roll, const std::string& program) {
  for (const std::string& why : roll.failures) complain("nothing was recorded: " + why);
  if (!roll.is_loaded) {
    return complain(kLibrary + std::string(" could not be loaded into ") + program +
                    " (the linker loads nothing into programs that are linked statically, setuid, "
                    "or of another architecture): nothing was recorded");
  }
  if (roll.recordings.empty()) {
    return complain(program + " never asked the CUDA driver for memory: nothing was recorded");
  }
  for (std::size_t i = 0; i < std::min(roll.recordings.size(), kMostTold); ++i) {
    complain(summary_of(roll.recordings[i]));
  }
  if (roll.recordings.size() > kMostTold) {
    complain("and " + base::format_count(roll.recordings.size() - kMostTold) + " more beside " +
             shown(roll.recordings.front()));
  }
}

std::string default_output(const std::string& program) {
  return "plimsoll-" + program.substr(program.rfind('/') + 1) + "-" + std::to_string(::getpid()) +
         ".plim";
}

// The linker reads the list with spaces and colons between its entries.
void preload(const std::string& library) {
  const char* before = std::getenv("LD_PRELOAD");
  const std::string list = before != nullptr && *before != '\0' ? std::string(before) + ":" : "";
  ::setenv("LD_PRELOAD", (list + library).c_str(), 1);
}

}  // namespace

int run_with_cuda_driver(const std::string& output, const std::vector<std::string>& program) {
  const std::string library = find_library();
  if (library.empty() || ::access(library.c_str(), R_OK) != 0) {
    complain(std::string("there is no ") + kLibrary +
             " beside this command (it is built on Linux alone); PLIMSOLL_CUDA_LIBRARY can name "
             "another place");
    return kWrongUse;
  }
  if (library.find_first_of(" :") != std::string::npos) {
    complain("the linker cannot preload " + library +
             ": its path has a space or a colon; PLIMSOLL_CUDA_LIBRARY can name a copy elsewhere");
    return kWrongUse;
  }
  Roll roll;
  if (!roll.is_made()) {
    complain("cannot make " + roll.path() + ": " + std::strerror(errno));
    return kOurFault;
  }
  std::error_code error;
  const std::string path = output.empty() ? default_output(program.front()) : output;
  ::setenv("PLIMSOLL_CUDA_OUT", std::filesystem::absolute(path, error).c_str(), 1);
  ::setenv("PLIMSOLL_CUDA_ROLL", roll.path().c_str(), 1);
  preload(library);
  const auto status = run_in_our_place(program);
  if (!status) return complain(status.error());
  roll.read();
  tell(roll, program.front());
  return *status;
}

}  // namespace plimsoll::cli

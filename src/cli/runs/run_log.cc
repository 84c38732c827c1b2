#include "cli/runs/run_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
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
#include "cli/line/terminal.h"
#include "engine/session_state.h"
#include "engine/trace_file.h"
#include "exporters/labels.h"
#include "plimsoll/session.h"

namespace plimsoll::cli {
namespace {

constexpr std::size_t kMostPrinted = 8;  // recordings per run

std::string shown(const std::string& path) {
  std::error_code error;
  const std::string near = std::filesystem::relative(path, error).string();
  return error || near.empty() || near.starts_with("..") ? path : near;
}

std::uint64_t allocations_of(const report::Report& report) {
  std::uint64_t count = 0;
  for (const report::SiteRow& row : report.tables.sites) count += row.allocations;
  return count;
}

// The first diagnostic about missing data, with its numbers; empty if there is none.
std::string missing_in(const report::Report& report) {
  for (const report::DiagnosticReport& each : report.source.diagnostics) {
    if (each.name == "sink_failed" || each.name == "file_truncated" || each.name == "file_cut" ||
        each.name == "corrupt_block") {
      return each.name + ": " + each.example;
    }
  }
  return {};
}

std::string children_of(const report::Report& report) {
  for (const report::DiagnosticReport& each : report.source.diagnostics) {
    if (each.name != "children_unrecorded") continue;
    return ", without " + base::format_count(each.count) +
           (each.count == 1 ? " forked child" : " forked children") + " (--in-children)";
  }
  return {};
}

std::string summary_of(const report::Report& report, const std::string& name) {
  const std::uint64_t allocations = allocations_of(report);
  const std::string missing = missing_in(report);
  if (allocations == 0 && missing.empty()) {
    return name + ": the program ended before it allocated a tensor" + children_of(report);
  }
  std::string peaks;
  std::size_t failed = 0;
  for (const report::DeviceReport& device : report.devices) {
    failed += device.ooms.size();
    if (device.events == 0) continue;
    peaks += (peaks.empty() ? ", peak " : ", ") +
             base::bytes_text(device.live_totals().peak_bytes) + " on " +
             exporters::device_name(device);
  }
  return name + ": " + base::format_count(allocations) +
         (allocations == 1 ? " allocation" : " allocations") + peaks +
         (failed > 0 ? ", out of memory: " + base::format_count(failed) : "") +
         children_of(report) + "; to see it: plimsoll report " + name +
         (missing.empty() ? "" : " (" + missing + ")");
}

Result<Report> answer_of(const std::string& path, const Question& question) {
  PLIMSOLL_TRY_ASSIGN(const Session session, Session::open(path));
  return session.ask(question);
}

}  // namespace

RunLog::RunLog() {
  const char* folder = std::getenv("TMPDIR");
  path_ =
      std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/plimsoll-run-XXXXXX";
  const int file = ::mkstemp(path_.data());
  is_made_ = file >= 0;
  if (is_made_) ::close(file);
}

RunLog::~RunLog() {
  if (is_made_) ::unlink(path_.c_str());
}

void RunLog::read() {
  std::ifstream lines(path_);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    std::string process;
    std::string rest;
    words >> word >> process;
    std::getline(words >> std::ws, rest);
    is_loaded = is_loaded || word == "loaded";
    if (word == "recording") {
      ++processes;
      if (::access(rest.c_str(), F_OK) == 0) recordings.push_back(rest);
    }
    if (word == "failed") failures.push_back(rest);
  }
}

std::string output_path(const std::string& output, const std::string& program) {
  std::error_code error;
  const std::string name = program.substr(program.rfind('/') + 1);
  return std::filesystem::absolute(
             output.empty() ? "plimsoll-" + name + "-" + std::to_string(::getpid()) + ".plim"
                            : output,
             error)
      .string();
}

// Why no file can be created in the folder; empty if one can. Permissions do not show it: root may
// write to /proc, which takes no files.
std::string trouble_in(const std::string& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return "the folder " + folder + " is not writable";
  const std::string path = folder + "/.plimsoll-" + std::to_string(::getpid());
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    const std::string why = std::strerror(errno);
    return "no file can be created in " + folder + " (" + why + ")";
  }
  ::close(file);
  ::unlink(path.c_str());
  return {};
}

Status check_output(const std::string& path) {
  const auto refused = [&](const std::string& why) {
    return make_error(ErrorCode::kInvalidArgument, "cannot record into " + path + ": " + why);
  };
  struct stat there{};
  const bool exists = ::stat(path.c_str(), &there) == 0;
  if (!exists && errno != ENOENT && errno != ENOTDIR) return refused(std::strerror(errno));
  if (path.ends_with('/') || (exists && S_ISDIR(there.st_mode))) {
    return refused("it is a folder; give a file name in it");
  }
  std::error_code error;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  while (!std::filesystem::exists(std::filesystem::symlink_status(folder, error)) &&
         folder.has_relative_path()) {
    folder = folder.parent_path();  // missing folders will be created
  }
  if (!std::filesystem::is_directory(folder, error)) {
    return refused(folder.string() + " is not a folder");
  }
  if (exists && S_ISSOCK(there.st_mode)) return refused("it is a socket");
  // If the file has content, the recording uses the next free name.
  const bool is_used = exists && (!S_ISREG(there.st_mode) || there.st_size == 0);
  if (is_used && ::access(path.c_str(), W_OK) != 0) return refused("it is not writable");
  const std::string trouble = is_used ? "" : trouble_in(folder.string());
  return trouble.empty() ? Status() : refused(trouble);
}

void remove_earlier(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  const bool is_being_written = ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!is_being_written && engine::is_trace_file(path)) ::unlink(path.c_str());
  ::close(file);
}

Printed print_recordings(const std::vector<std::string>& paths) {
  Printed printed;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string name = shown(paths[i]);
    Question question;
    question.top = SIZE_MAX / 2;  // all rows of the table of sites, to count them
    const auto report = answer_of(paths[i], question);
    if (report) printed.events += report->value().source.events;
    printed.is_incomplete =
        printed.is_incomplete || !report || !missing_in(report->value()).empty();
    if (i >= kMostPrinted) continue;
    complain(report ? summary_of(report->value(), name) : report.error().message);
  }
  if (paths.size() > kMostPrinted) {
    complain("and " + base::format_count(paths.size() - kMostPrinted) + " more next to " +
             shown(paths.front()));
  }
  return printed;
}

}  // namespace plimsoll::cli

// Starts the recording that the environment requests: PLIMSOLL=1, set by `plimsoll run -- PROGRAM`.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/launcher.h"
#include "base/output_file.h"
#include "base/process_singleton.h"
#include "base/quiet_writing.h"
#include "base/units.h"
#include "base/utf8.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::record {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// plimsoll-PROGRAM-PID.plim, with the rank in a distributed run: the same name as in Python.
std::string default_path() {
  std::error_code error;
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe", error).filename().string();
  const auto rank = base::launched_rank();
  return "plimsoll-" + (program.empty() ? "program" : program) +
         (rank ? "-rank" + std::to_string(*rank) : "") + "-" + std::to_string(getpid()) + ".plim";
}

// "rank3" and "run-rank_03" name rank 3; "lora_rank33" and "franks3" do not.
bool names_rank(std::string_view name, std::string_view rank) {
  constexpr std::string_view kWord = "rank";
  for (std::size_t at = name.find(kWord); at != name.npos; at = name.find(kWord, at + 1)) {
    if (at > 0 && std::isalpha(static_cast<unsigned char>(name[at - 1])) != 0) continue;
    std::string_view number = name.substr(at + kWord.size());
    if (number.starts_with('-') || number.starts_with('_')) number.remove_prefix(1);
    number = number.substr(0, number.find_first_not_of("0123456789"));
    while (number.size() > rank.size() && number.starts_with('0')) number.remove_prefix(1);
    if (number == rank) return true;
  }
  return false;
}

// In rank 3 of several, run.plim becomes run.rank3.plim, because all ranks inherit the same path.
std::string of_rank(const std::string& path) {
  const auto number = base::launched_rank();
  const auto world_size = base::launched_world_size();
  if (!number || !world_size || *world_size == 1) return path;
  const std::string rank = std::to_string(*number);
  const std::filesystem::path whole(path);
  const auto is_folder_of_rank = [&](const auto& part) { return part == "rank" + rank; };
  if (names_rank(whole.filename().string(), rank) ||
      std::ranges::any_of(whole, is_folder_of_rank)) {
    return path;
  }
  return (whole.parent_path() / whole.stem()).string() + ".rank" + rank +
         whole.extension().string();
}

// The file in which `plimsoll run` finds the processes that recorded: one line each, "recording PID
// PATH" or "failed PID WHY". It exists only under `plimsoll run`.
class RunLog {
 public:
  RunLog() {
    const char* const path = std::getenv("PLIMSOLL_RUN_LOG");
    if (path == nullptr) return;
    file_ = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    while (file_ >= 0 && flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;
  ~RunLog() {
    if (file_ >= 0) close(file_);
  }

  bool is_open() const { return file_ >= 0; }

  void write_line(std::string_view word, std::string_view rest) const {
    std::string line(word);
    line += " " + std::to_string(getpid()) + " ";
    line += rest;
    line += '\n';
    const base::QuietWriting quiet;
    if (file_ >= 0 && write(file_, line.data(), line.size()) < 0) return;
  }

 private:
  int file_ = -1;
};

// The recording that the environment requested. A child of a fork has none: the parent stops it.
struct EnvironmentRecording {
  plimsoll_recording* recording = nullptr;
  std::string path;
};

EnvironmentRecording& environment_recording() {
  return base::process_singleton<EnvironmentRecording>();
}

// Without `plimsoll run`, nothing else prints the path of the recording.
void stop_and_report() {
  EnvironmentRecording& ours = environment_recording();
  if (ours.recording == nullptr) return;
  const std::uint64_t peak = plimsoll_recording_peak_bytes(ours.recording, 0);
  plimsoll_recording_state state{};
  plimsoll_recording_stop(std::exchange(ours.recording, nullptr), &state);
  const std::string held =
      state.error != 0
          ? "incomplete (" + std::string(std::strerror(state.error)) + ")"
          : base::format_count(state.events) + (state.events == 1 ? " event" : " events");
  const std::string path = base::escaped(ours.path);
  base::write_to_stderr("plimsoll: " + path + ": " + held + ", peak " + base::bytes_text(peak) +
                        "; to see it: plimsoll report " + path + "\n");
}

// Returns false if the text is not a number, or too large. "" is 0.
bool read_max_events(const std::string& text, std::uint64_t& count) {
  count = 0;
  if (text.empty()) return true;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, count);
  return result.ec == std::errc{} && result.ptr == end;
}

std::string quoted(const char* name) {
  return std::string(name) + "='" + base::escaped(variable(name)) + "'";
}

// Returns the problem, or "". The adapter reads the mode and the uses later.
std::string problem_of_environment(std::uint64_t& max_events) {
  if (!read_max_events(variable("PLIMSOLL_MAX_EVENTS"), max_events))
    return quoted("PLIMSOLL_MAX_EVENTS") + " is not a whole number.";
  const std::string mode = variable("PLIMSOLL_MODE");
  if (!mode.empty() && mode != "full" && mode != "lite")
    return quoted("PLIMSOLL_MODE") + " is not full or lite.";
  const std::string uses = variable("PLIMSOLL_USES");
  if (!uses.empty() && uses != "auto" && uses != "always" && uses != "sampled" && uses != "never")
    return quoted("PLIMSOLL_USES") + " is not auto, always, sampled or never.";
  if (mode == "lite" && (uses == "always" || uses == "sampled")) {
    return quoted("PLIMSOLL_MODE") + " contradicts " + quoted("PLIMSOLL_USES") +
           ": lite observes no uses.";
  }
  const std::string in_children = variable("PLIMSOLL_IN_CHILDREN");
  if (!in_children.empty() && in_children != "0" && in_children != "1")
    return quoted("PLIMSOLL_IN_CHILDREN") + " is not 0 or 1.";
  return "";
}

void report_failure(const RunLog& log, const char* sentence) {
  if (log.is_open()) {
    log.write_line("failed", sentence);
  } else {
    base::write_to_stderr("plimsoll: nothing is recorded: " + base::escaped(sentence) + "\n");
  }
}

bool start_recording() {
  const std::string wanted = variable("PLIMSOLL");
  if (wanted.empty() || wanted == "0") return false;
  const RunLog log;
  std::uint64_t max_events = 0;
  if (const std::string problem = problem_of_environment(max_events); !problem.empty()) {
    report_failure(log, problem.c_str());
    return false;
  }
  const std::string out = variable("PLIMSOLL_OUT");
  EnvironmentRecording& ours = environment_recording();
  ours.path = out.empty() ? default_path() : of_rank(out);

  plimsoll_recording_options options{};
  options.size_bytes = sizeof options;
  options.sink = PLIMSOLL_SINK_FILE;
  options.in_children = variable("PLIMSOLL_IN_CHILDREN") == "1" ? 1 : 0;
  options.path = ours.path.c_str();
  options.max_events = max_events;
  const std::string uses =
      variable("PLIMSOLL_MODE") == "lite" ? "never" : variable("PLIMSOLL_USES");
  const std::array<const char*, 3> meta = {"uses", uses.empty() ? "auto" : uses.c_str(), nullptr};
  options.meta = meta.data();
  const char* why = nullptr;
  ours.recording = plimsoll_recording_start(&options, &why);
  if (ours.recording == nullptr) {
    report_failure(log, why != nullptr ? why : "Not enough memory for a recording.");
    return false;
  }
  const std::string wanted_path = std::exchange(ours.path, plimsoll_recording_path(ours.recording));
  if (log.is_open()) {
    log.write_line("recording", ours.path);
    return true;
  }
  if (ours.path != wanted_path) {
    base::write_to_stderr("plimsoll: " + base::escaped(wanted_path) +
                          " exists; this run is recorded into " + base::escaped(ours.path) + "\n");
  }
  std::atexit(stop_and_report);
  return true;
}

}  // namespace
}  // namespace plimsoll::record

int plimsoll_record_from_environment() {
  static const bool kIsRecording = [] {
    try {
      return plimsoll::record::start_recording();
    } catch (...) {
      return false;  // no memory for two paths: the program runs unrecorded
    }
  }();
  return kIsRecording ? 1 : 0;
}

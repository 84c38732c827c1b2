#include "logs/reader.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <vector>

#include "base/input_file.h"
#include "base/utf8.h"
#include "logs/deepspeed_log.h"
#include "logs/labelled.h"
#include "logs/lines.h"
#include "logs/nvidia_smi_log.h"
#include "logs/printed_log.h"
#include "logs/rank_tags.h"
#include "logs/text_log_reader.h"
#include "sample/names.h"

namespace plimsoll::logs {
namespace {

// Number of lines that may precede the first one that identifies the log.
constexpr std::size_t kMostLinesBefore = 1000;
constexpr std::uint64_t kMostBytesBefore = std::uint64_t{16} << 20;
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
// Four million snapshots; larger logs are implausible.
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

constexpr std::size_t kMostProcesses = 256;  // a hostile log may name more

// A sample of one process of several: its figures are a device of their own. Those of the host and
// the loss are taken from the first process only.
MemorySample of_process(MemorySample sample, const std::string& process, bool is_first) {
  for (DeviceMemory& device : sample.devices) {
    const bool is_unnamed = device.name == kUnnamedDevice || device.name == DeepSpeedLog::kDevice;
    device.name = is_unnamed ? process : device.name + " of " + process;
  }
  if (!is_first) {
    sample.host = {};
    sample.loss.reset();
  }
  return sample;
}

bool has_figure(const HostMemory& host) {
  return host.rss_bytes || host.workers_bytes || host.used_bytes || host.cpu_percent;
}

class AnyLog {
 public:
  AnyLog(std::string name, const SampleSink& sink)
      : name_(std::move(name)),
        sink_([this, &sink](const MemorySample& sample) {
          ++contents_.snapshots;
          has_figures_ = has_figures_ || !sample.devices.empty() || has_figure(sample.host);
          if (*format_ == LogFormat::kTextLog) place_.run = text_log_.run();
          place_.format = *format_;
          sink(place_, sample);
        }),
        lines_([this](std::string_view line) { take(line); }),
        text_log_(sink_) {}
  AnyLog(const AnyLog&) = delete;
  AnyLog& operator=(const AnyLog&) = delete;

  void feed(std::string_view bytes) {
    contents_.bytes += bytes.size();
    lines_.feed(bytes);
  }
  std::uint64_t bytes() const { return contents_.bytes; }
  // Whether the rest cannot change the answer.
  bool is_hopeless() const {
    return !format_ && (lines_before_ > kMostLinesBefore || contents_.bytes > kMostBytesBefore);
  }
  Result<LogContents> finish();

 private:
  // What one of the processes that share the log prints.
  struct Process {
    DeepSpeedLog deepspeed;
    PrintedLog printed;
  };

  void take(std::string_view line);
  Process& process_of(std::string name);
  void take_printed(std::string_view line);
  Error not_a_log() const;
  Error unreadable_figures() const;

  std::string name_;
  std::function<void(const MemorySample&)> sink_;
  LogLines lines_;
  std::optional<LogFormat> format_;
  SamplePlace place_;
  std::size_t lines_before_ = 0;
  bool has_table_ = false;
  bool has_figures_ = false;
  TextLogReader text_log_;
  NvidiaSmiLog nvidia_smi_;
  RankTags tags_;
  std::map<std::string, Process> processes_;
  std::string first_process_;  // that has figures
  LogContents contents_;
};

void AnyLog::take(std::string_view line) {
  if (is_hopeless()) return;
  if (!format_) {
    if (TextLogReader::knows(line)) format_ = LogFormat::kTextLog;
    has_table_ = has_table_ || NvidiaSmiLog::is_table(line);
    if (!format_ && !has_table_ && NvidiaSmiLog::knows(line)) format_ = LogFormat::kNvidiaSmi;
    if (!format_) return take_printed(line);
  }
  switch (*format_) {
    case LogFormat::kTextLog:
      return text_log_.line(line);
    case LogFormat::kNvidiaSmi:
      return nvidia_smi_.line(line);
    case LogFormat::kDeepSpeed:
    case LogFormat::kPrinted:
      return take_printed(line);
  }
}

AnyLog::Process& AnyLog::process_of(std::string name) {
  const auto known = processes_.find(name);
  if (known != processes_.end()) return known->second;
  const auto sink = [this, name](const MemorySample& sample) {
    if (name.empty()) return sink_(sample);
    if (first_process_.empty()) first_process_ = name;
    sink_(of_process(sample, name, name == first_process_));
  };
  return processes_.try_emplace(name, DeepSpeedLog(sink), PrintedLog(sink)).first->second;
}

void AnyLog::take_printed(std::string_view line) {
  const TaggedLine tagged = tags_.take(line);
  const bool has_room = processes_.size() < kMostProcesses || processes_.contains(tagged.process);
  Process& process = process_of(has_room ? tagged.process : std::string());
  if (!format_ && DeepSpeedLog::knows(tagged.line)) format_ = LogFormat::kDeepSpeed;
  if (format_ == LogFormat::kDeepSpeed) return process.deepspeed.line(tagged.line);
  if (process.printed.line(tagged.line) && !format_) format_ = LogFormat::kPrinted;
  if (!format_) ++lines_before_;
}

Error AnyLog::not_a_log() const {
  if (contents_.bytes == 0) return make_error(ErrorCode::kUnsupported, name_ + " is empty");
  if (has_table_) {
    return make_error(
        ErrorCode::kUnsupported,
        name_ +
            " holds the tables of nvidia-smi, not a log of memory: write one with nvidia-smi "
            "--query-gpu=timestamp,index,memory.used,memory.total --format=csv -l 5");
  }
  return make_error(
      ErrorCode::kUnsupported,
      name_ +
          " is no text log of Plimsoll (tensor_profile_*.log), no CSV log of nvidia-smi, and has "
          "no figures such as \"Allocated: 8073.4 MB\" or those of DeepSpeed's see_memory_usage(); "
          "plimsoll report reads recordings, snapshots and messages about memory");
}

// Figures in another notation.
Error AnyLog::unreadable_figures() const {
  const std::uint64_t unreadable = text_log_.unreadable_figures();
  const std::uint64_t all = unreadable + text_log_.read_figures();
  const TextLogReader::UnreadLine& first = *text_log_.first_unread();
  return make_error(ErrorCode::kCorrupt,
                    name_ + ": " + std::to_string(unreadable) + " of " + std::to_string(all) +
                        " lines with figures of devices cannot be read; the first unrecognized "
                        "line is " +
                        std::to_string(lines_before_ + first.number) + ", \"" +
                        base::escaped(first.text) +
                        "\"; figures follow a line \"Device: NAME\" and have the form "
                        "\"Allocated: 8073.4 MB\"");
}

Result<LogContents> AnyLog::finish() {
  if (!is_hopeless()) lines_.finish();
  if (!format_) return not_a_log();
  contents_.format = *format_;
  contents_.unread_lines = lines_before_ + lines_.long_lines();
  if (*format_ == LogFormat::kNvidiaSmi) {
    PLIMSOLL_TRY(nvidia_smi_.finish(name_, sink_));
    contents_.unread_lines += nvidia_smi_.unread_lines();
    contents_.runs = 1;
    return contents_;
  }
  if (*format_ == LogFormat::kDeepSpeed || *format_ == LogFormat::kPrinted) {
    for (auto& [name, process] : processes_) {
      process.deepspeed.finish();
      process.printed.finish();
    }
    contents_.unread_lines = 0;
    contents_.is_of_program = true;
    contents_.runs = 1;
    return contents_;
  }
  text_log_.finish();
  if (const auto format = text_log_.unknown_format()) {
    return make_error(ErrorCode::kUnsupported,
                      name_ + " is a text log of format " + std::to_string(*format) +
                          ", written by a later version of Plimsoll: this one reads format 1");
  }
  contents_.is_of_program = !text_log_.has_header();
  contents_.cut_snapshots = text_log_.cut_snapshots();
  contents_.unread_lines += text_log_.unread_lines();
  if (contents_.snapshots == 0) {
    return make_error(ErrorCode::kCorrupt,
                      name_ +
                          " holds no complete sample: the run has not reached the first iteration "
                          "that is due (--profile_interval, option interval), or ended before it");
  }
  contents_.runs = text_log_.run();
  if (text_log_.unreadable_figures() > text_log_.read_figures()) return unreadable_figures();
  if (!has_figures_) {
    return make_error(ErrorCode::kCorrupt,
                      name_ + " has " + std::to_string(contents_.snapshots) +
                          " snapshots but no figures, such as \"Allocated: 8073.4 MB\"");
  }
  return contents_;
}

Error failure(const std::string& path, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound
                         : error == EACCES || error == EPERM ? ErrorCode::kPermission
                                                             : ErrorCode::kIo;
  return make_error(code, "cannot read " + path + ": " + std::strerror(error));
}

// Only a regular file is sure to end: a pipe may block forever, and a device may never end.
Status check_is_file(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return failure(path, errno);
  if (S_ISDIR(status.st_mode)) return failure(path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    return make_error(
        ErrorCode::kUnsupported,
        "cannot read " + path + ": it is not a regular file; write the log to a file");
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > kMostBytes) {
    return make_error(ErrorCode::kUnsupported, path + " has " + std::to_string(size) +
                                                   " bytes; logs of up to " +
                                                   std::to_string(kMostBytes) + " are read");
  }
  return {};
}

}  // namespace

Result<LogContents> read_log(const std::string& path, const SampleSink& sink,
                             const LogProgress& progress) {
  PLIMSOLL_TRY(check_is_file(path));
  const base::InputFile file = base::open_input(path);
  if (!file) return failure(path, errno);
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  const std::uint64_t total = unknown ? 0 : size;
  AnyLog log(path, sink);
  std::vector<char> piece(kPieceBytes);
  while (!log.is_hopeless() && std::feof(file.get()) == 0) {
    errno = 0;
    const std::size_t count = std::fread(piece.data(), 1, piece.size(), file.get());
    if (std::ferror(file.get()) != 0) return failure(path, errno);
    log.feed({piece.data(), count});
    if (progress && !progress(log.bytes(), total)) {
      return make_error(ErrorCode::kInterrupted, "interrupted");
    }
  }
  return log.finish();
}

Result<LogContents> read_log_bytes(std::string_view bytes, const std::string& name,
                                   const SampleSink& sink) {
  AnyLog log(name, sink);
  log.feed(bytes);
  return log.finish();
}

}  // namespace plimsoll::logs

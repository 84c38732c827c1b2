#include "monitor/snapshots.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "plimsoll/process_rank.h"

namespace plimsoll::monitor {
namespace {

namespace fs = std::filesystem;

constexpr int kMostOfAName = 1000;

}  // namespace

Result<std::string> reserve_snapshot(const std::string& folder, std::int64_t iteration) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return make_error(ErrorCode::kIo,
                      "cannot create the folder " + folder + ": " + error.message());
  }
  const std::string first =
      (fs::path(folder) / ("memory_snapshot_iter" + std::to_string(iteration))).string();
  std::string stem = first;
  for (int n = 2; n <= kMostOfAName; ++n) {
    std::error_code unknown;
    if (!fs::exists(stem + ".pickle", unknown)) {
      std::string path = stem + ".plim";
      const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
      if (file >= 0) {
        ::close(file);
        return path;
      }
      if (errno != EEXIST) {
        return make_error(ErrorCode::kIo, "cannot create " + path + ": " + std::strerror(errno));
      }
    }
    stem = first;
    stem.append(".").append(std::to_string(n));
  }
  return make_error(ErrorCode::kIo, first + ": too many snapshots of this iteration exist");
}

Snapshots::Snapshots(const MonitorOptions& options, SnapshotRecorder recorder, Reporter report)
    : options_(options),
      recorder_(std::move(recorder)),
      report_(std::move(report)),
      windows_(options.enabled ? options.snapshot_at : std::vector<std::int64_t>()) {}

Snapshots::~Snapshots() {
  if (recording_ != nullptr) plimsoll_recording_stop(recording_, nullptr);
}

void Snapshots::begin() { apply(windows_.begin()); }

void Snapshots::iteration_ended(std::int64_t iteration) {
  apply(windows_.iteration_ended(iteration));
}

void Snapshots::apply(const SnapshotWindows::Change& change) {
  if (change.ends) end();
  if (!change.begins) return;
  const Status status = record(*change.begins);
  is_recording_ = status.ok();
  if (!status) report_(status);
}

Status Snapshots::record(std::int64_t iteration) {
  PLIMSOLL_TRY_ASSIGN(const std::string path,
                      reserve_snapshot(rank_folder(options_.output_dir), iteration));
  if (recorder_.begin) {
    recorder_.begin(path);
    return {};
  }
  plimsoll_recording_options how{};
  how.size_bytes = sizeof how;
  how.sink = PLIMSOLL_SINK_FILE;
  how.path = path.c_str();
  const char* why = nullptr;
  recording_ = plimsoll_recording_start(&how, &why);
  if (recording_ != nullptr) return {};
  return make_error(ErrorCode::kIo, path + ": " + (why == nullptr ? "not recorded" : why));
}

void Snapshots::end() {
  if (!std::exchange(is_recording_, false)) return;
  if (recorder_.end) recorder_.end();
  if (recording_ != nullptr) plimsoll_recording_stop(std::exchange(recording_, nullptr), nullptr);
}

}  // namespace plimsoll::monitor

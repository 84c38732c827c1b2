// The text log of a run: OUTPUT_DIR/profiles/tensor_profile_TIMESTAMP.log, for
// people, grep, and text_log_reader.h. docs/monitoring-reference.md describes the format.
//
// A snapshot is one write, so that a killed run leaves complete snapshots, and ends with an empty
// line.
#pragma once

#include <cstddef>
#include <string>

#include "base/record_file.h"
#include "plimsoll/memory_sample.h"
#include "plimsoll/result.h"

namespace plimsoll::text_log {

struct TextLogOptions {
  std::size_t top_layers = 10;
  std::size_t top_large_tensors = 5;
  std::size_t most_bytes = 1024;  // of a snapshot, for each GPU; the lists are shortened to fit
};

std::string text_log_header(std::int64_t time_ns);
std::string text_log_snapshot(const MemorySample& sample, const TextLogOptions& options);

// Appends one snapshot to a log of any name: creates the file, its folders and its header if
// necessary.
Status append_text_log(const std::string& path, const MemorySample& sample,
                       const TextLogOptions& options);

class TextLog {
 public:
  // Creates the file and its folders.
  Status create(const std::string& output_dir, const TextLogOptions& options);

  // Only the first failure is reported; after it the log accepts no more samples.
  Status write(const MemorySample& sample);
  // Removes a file that has no sample.
  void close();

  bool is_open() const { return file_.is_open(); }
  const std::string& path() const { return file_.path(); }

 private:
  base::RecordFile file_;
  TextLogOptions options_;
  bool is_empty_ = true;
  int process_ = 0;  // that created the file: a forked child does not remove it
};

}  // namespace plimsoll::text_log

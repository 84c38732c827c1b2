#include "readers/foreign_file.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace plimsoll::readers {
namespace {

using namespace std::string_view_literals;

struct Known {
  std::string_view start;  // of the file
  std::string_view text;
};

constexpr std::string_view kSqlite =
    "this is an SQLite database. Write a memory snapshot as a pickle: "
    "torch.cuda.memory._dump_snapshot(path). A database that nsys exported comes from an .nsys-rep "
    "file: plimsoll nsys --summarize FILE.nsys-rep";

constexpr std::string_view kProgram = "this is a Python program. Record it with plimsoll run FILE";

constexpr auto kByStart = std::to_array<Known>({
    {"SQLite format 3\0"sv, kSqlite},
    {"memray"sv, "this is a recording of memray. Read it with memray flamegraph FILE"},
    {"PK\x03\x04"sv,
     "this is a zip archive, such as torch.save() writes: a checkpoint, not a memory snapshot. "
     "Extract an archive of recordings first"},
    {"\x28\xB5\x2F\xFD"sv, "this file is compressed with zstd: run zstd -d FILE first"},
    {"\xFD"
     "7zXZ"sv,
     "this file is compressed with xz: run xz -d FILE first"},
    {"BZh"sv, "this file is compressed with bzip2: run bzip2 -d FILE first"},
    {"\x7F"
     "ELF"sv,
     "this is a program. Record it with plimsoll run -- FILE"},
    {"\x89PNG"sv, "this is a picture. Pass the recording that it was made from"},
    {"%PDF"sv, "this is a PDF document. Pass the recording that it was made from"},
    {"\x89HDF"sv, "this is an HDF5 file, such as a checkpoint, not a memory recording"},
    {"import torch"sv, kProgram},
    {"PAR1"sv, "this is a Parquet file, not a memory recording"},
    {"ARROW1"sv, "this is an Arrow file, not a memory recording"},
});

// Recognizes text that no reader accepts; the first match counts.
constexpr auto kByText = std::to_array<Known>({
    {"NVSMI LOG"sv,
     "this is the output of nvidia-smi -q. Log figures over time with nvidia-smi --query-gpu="
     "timestamp,memory.used --format=csv -l 1, and read that with plimsoll analyze FILE"},
    {"| NVIDIA-SMI"sv,
     "this is the table of nvidia-smi. Log figures over time with nvidia-smi --query-gpu="
     "timestamp,memory.used --format=csv -l 1, and read that with plimsoll analyze FILE"},
    {"memory.used ["sv, "this is a log of nvidia-smi. Read it with plimsoll analyze FILE"},
    {"# Plimsoll tensor profile"sv,
     "this is a text log of Plimsoll's monitor. Read it with plimsoll analyze FILE"},
    {":see_memory_usage]"sv,
     "this is a log with figures of DeepSpeed. Read it with plimsoll analyze FILE"},
    {"\nimport torch"sv, kProgram},
});

// A TFRecord: the length of the first record, its checksum, and an Event with "brain.Event:2".
bool is_event_file(std::string_view head) {
  return head.substr(0, 64).find("brain.Event:") != head.npos;
}

bool is_tar(std::string_view head) {
  constexpr std::size_t kMagicAt = 257;
  return head.size() > kMagicAt && head.substr(kMagicAt).starts_with("ustar");
}

}  // namespace

std::string foreign_file(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  for (const Known& known : kByStart) {
    if (text.starts_with(known.start)) return std::string(known.text);
  }
  if (is_event_file(text)) {
    return "this is an event file of TensorBoard. Show it with tensorboard --logdir FOLDER; "
           "Plimsoll reads the text log of the same run: plimsoll analyze FILE";
  }
  if (is_tar(text)) return "this is a tar archive. Extract the recording first: tar -xf FILE";
  constexpr std::size_t kTextBytes = 64 << 10;
  for (const Known& known : kByText) {
    if (text.substr(0, kTextBytes).find(known.start) != text.npos) return std::string(known.text);
  }
  return {};
}

}  // namespace plimsoll::readers

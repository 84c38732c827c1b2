// The file in which a running process publishes its memory use: one per process, named by its pid,
// in a folder of its user. Read and written only with pread and pwrite, never mapped, so that a
// full disk or truncation by another process is a returned error instead of a signal.
//
//   0   "PLIMLIV2"
//   8   u32 kSampleVersion, i32 pid
//   16  u64 start of the process, in ticks since boot   (with the pid: this process and no other)
//   24  u64 the namespace of the pid
//   32  i64 wanted until, CLOCK_MONOTONIC ns            (written by watchers, read by the process)
//   40  i64 when holders were last asked for, the same
//   48  u64 number of the sample, u64 its bytes, u64 their checksum
//   72  i64 the request for holders that has been answered
//   80  the sample, as encoded by encode_sample()
//
// The checksum reveals a partially written sample. Everything in the file is bounds-checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plimsoll/memory_sample.h"
#include "sample/sample_fields.h"

namespace plimsoll::live {

struct LiveStatusHeader {
  char magic[8] = {'P', 'L', 'I', 'M', 'L', 'I', 'V', '2'};
  std::uint32_t version = sample::kSampleVersion;
  std::int32_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t pid_namespace = 0;
  std::int64_t wanted_until_ns = 0;
  std::int64_t holders_asked_ns = 0;  // 0: never
  std::uint64_t sample_number = 0;    // from 1
  std::uint64_t sample_bytes = 0;
  std::uint64_t sample_checksum = 0;
  std::int64_t holders_answered_ns = 0;
};
static_assert(sizeof(LiveStatusHeader) == 80);
inline constexpr std::size_t kWantedAt = offsetof(LiveStatusHeader, wanted_until_ns);
inline constexpr std::size_t kHoldersAskedAt = offsetof(LiveStatusHeader, holders_asked_ns);

// The maximum size of a sample: larger ones end in "(rest)" shares, see encode_sample().
inline constexpr std::size_t kMostSampleBytes = 576 << 10;

// Encodes the devices, each with its largest categories, dtypes, layers and tensors. Shares beyond
// a list's limit are combined into one share "(rest)", so that the sums still equal the live bytes.
std::vector<std::byte> encode_sample(const MemorySample& sample);
// Returns nullopt for bytes that encode_sample() cannot produce.
std::optional<MemorySample> decode_sample(std::span<const std::byte> bytes);

std::uint64_t sample_checksum(std::uint64_t number, std::span<const std::byte> bytes);

std::int64_t live_status_clock_ns();

}  // namespace plimsoll::live

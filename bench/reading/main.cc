// plimsoll_reading_bench [EVENTS]: how quickly a trace file is read, decoding alone and into the
// model, and how small it is. The recording is synthetic: training steps of a thousand operators on
// two threads, like training on the CPU. It is in memory, so no disk is measured.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "format/decoder.h"
#include "format/encoder.h"
#include "model/trace_builder.h"
#include "readers/native/native_reader.h"

namespace {

using namespace plimsoll;

class File final : public format::BlockOutput {
 public:
  File() : bytes_(format::kPreludeBytes) { format::Encoder::prelude(bytes_.data()); }
  void write(const format::FinishedBlock& block) noexcept override {
    bytes_.insert(bytes_.end(), block.bytes.begin(), block.bytes.end());
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// One step: each operator allocates a temporary and an output. Backward frees the outputs in
// reverse order and allocates gradients, which the optimizer frees. Times are a few microseconds
// apart.
class Training {
 public:
  Training(format::Encoder& encoder, std::uint64_t events) : encoder_(encoder) {
    define();
    while (encoder.events() < events) step();
    encoder.finish(now_ns_);
  }

 private:
  static constexpr std::uint32_t kOperators = 1'000;
  static constexpr std::uint64_t kBlockNs = 100'000'000;  // the maximum age of a block
  static constexpr std::uint64_t kForward = 1, kBackward = 2;

  void define() {
    for (std::uint32_t id = 1; id <= kOperators; ++id) {
      encoder_.define_name(id, "model.blocks." + std::to_string(id) + ".linear");
      const std::vector<format::Frame> frames(20, {id, id, id});
      encoder_.define_stack(id, frames);
    }
    for (std::uint32_t id = 1; id < 3 * kOperators; ++id) {
      const std::uint32_t op = id % kOperators + 1;
      const auto phase = static_cast<std::uint8_t>(id < 2 * kOperators ? kForward : kBackward);
      encoder_.define_site(id, {op, op, op, op, op, phase, 0});
    }
  }
  std::int64_t tick() {
    now_ns_ += 500 + static_cast<std::int64_t>(random_() % 8'000);
    if (now_ns_ - block_ns_ > static_cast<std::int64_t>(kBlockNs)) {
      encoder_.flush();
      block_ns_ = now_ns_;
    }
    return now_ns_;
  }
  std::uint64_t alloc(std::uint32_t thread, std::uint32_t site, std::uint64_t size_bytes) {
    // An allocator mostly returns the address that was freed last.
    const std::uint64_t address = 0x7f0000000000 + site * 0x40000 + random_() % 4 * 64;
    encoder_.alloc({tick(), thread, site, serial_, address, size_bytes, false});
    return serial_++;
  }
  void free(std::uint32_t thread, std::uint64_t serial, bool in_op) {
    encoder_.free({tick(), thread, serial, 0, in_op});
  }
  void step() {
    std::vector<std::uint64_t> outputs, gradients;
    for (std::uint32_t op = 1; op < kOperators; ++op) {
      const std::uint64_t temporary = alloc(1, op, op * 520);
      outputs.push_back(alloc(1, kOperators + op, op * 4'000));
      free(1, temporary, true);
    }
    encoder_.mark({tick(), 1, 3, 0});
    for (std::uint32_t op = kOperators - 1; op > 0; --op) {
      gradients.push_back(alloc(2, 2 * kOperators + op, op * 4'000));
      free(2, outputs[op - 1], false);
    }
    encoder_.mark({tick(), 2, 4, 0});
    for (const std::uint64_t gradient : gradients) free(1, gradient, false);
    encoder_.mark({tick(), 1, 0, ++step_});
  }

  format::Encoder& encoder_;
  std::mt19937_64 random_{1};
  std::int64_t now_ns_ = 1'700'000'000'000'000'000;
  std::int64_t block_ns_ = now_ns_;
  std::uint64_t serial_ = 0;
  std::uint64_t step_ = 0;
};

struct Sum : format::NoRecords {
  void on_alloc(const format::Alloc& alloc) noexcept { bytes += alloc.size_bytes; }
  void on_free(const format::Free& free) noexcept { bytes ^= free.serial; }
  std::uint64_t bytes = 0;
};

// CPU time of this process, which has one thread: other programs do not count.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double seconds(const std::function<void()>& work) {
  const double began = cpu_seconds();
  work();
  return cpu_seconds() - began;
}

void decode(std::span<const std::byte> bytes) {
  Sum sum;
  format::Decoder<Sum> decoder(sum);
  decoder.push(bytes);
  decoder.finish();
  if (sum.bytes == 1) std::puts("");  // so that the sum is used
}

struct ReadTimes {
  double reading_s, pairing_s;
  std::uint64_t model_bytes;  // events, lifetimes and sites, as far as they are used
};

std::uint64_t bytes_of(const model::Trace& trace) {
  std::uint64_t bytes = trace.sites.memory_bytes();
  for (const model::DeviceTrace& device : trace.devices) {
    // Columns grow by doubling; the unused part costs no memory.
    const auto used = [](const auto& column) { return column.size() * sizeof(column[0]); };
    const model::Events& events = device.events;
    const model::Lifetimes& lifetimes = device.lifetimes;
    bytes += used(events.action) + used(events.address) + used(events.size_bytes) +
             used(events.time_ns) + used(events.site);
    bytes += used(lifetimes.alloc) + used(lifetimes.free_requested) +
             used(lifetimes.free_completed) + lifetimes.category.memory_bytes() +
             lifetimes.tensor.memory_bytes() + lifetimes.flags.memory_bytes() +
             lifetimes.block.memory_bytes();
  }
  return bytes;
}

ReadTimes read(std::span<const std::byte> bytes) {
  base::Diagnostics diagnostics;
  base::Progress progress;
  model::TraceBuilder builder(diagnostics);
  readers::ReadContext context{builder, diagnostics, progress, {}};
  const auto source = readers::view_memory(bytes);
  const auto reader = readers::native::make();
  ReadTimes times{};
  times.reading_s = seconds([&] {
    if (!reader->read(*source, context).ok()) std::exit(1);
  });
  auto trace = Result<model::Trace>(model::Trace{});
  times.pairing_s = seconds([&] { trace = builder.finish(reader->name(), progress); });
  if (!trace.ok()) std::exit(1);
  times.model_bytes = bytes_of(*trace);
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kRounds = 5;
  const std::uint64_t wanted = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  File file;
  format::Encoder encoder(file);
  const double encoding_s = seconds([&] { Training training(encoder, wanted); });
  const auto events = static_cast<double>(encoder.events());
  std::printf("%.0f events, %zu bytes, %.2f bytes an event; made and encoded at %.1f M events/s\n",
              events, file.bytes().size(), static_cast<double>(file.bytes().size()) / events,
              events / encoding_s / 1e6);
  for (int round = 0; round < kRounds; ++round) {
    const double decoding_s = seconds([&] { decode(file.bytes()); });
    const ReadTimes times = read(file.bytes());
    std::printf(
        "M events a CPU second: decode %.1f; into the model %.1f, with pairing %.1f; %.1f bytes an "
        "event\n",
        events / decoding_s / 1e6, events / times.reading_s / 1e6,
        events / (times.reading_s + times.pairing_s) / 1e6,
        static_cast<double>(times.model_bytes) / events);
  }
  return 0;
}

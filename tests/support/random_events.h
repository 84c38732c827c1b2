// Random streams of trace file events: wild ones with arbitrary field values, and recordings like
// those of a recorder.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "plimsoll/recorder_c.h"
#include "tests/support/trace_file.h"

namespace plimsoll::tests {

class RandomEvents {
 public:
  explicit RandomEvents(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  // Any number; small and extreme ones are as likely as those in between.
  std::uint64_t wild() {
    switch (below(5)) {
      case 0:
        return below(4);
      case 1:
        return ~below(4);
      default:
        return random_() >> below(64);
    }
  }

  AnyEvent wild_event() {
    return wild_event(std::make_index_sequence<std::variant_size_v<AnyEvent>>());
  }

  // Every field is arbitrary, except for the encoder's requirements: few sites, and a free has
  // either the serial or the address.
  template <typename Event>
  Event wild_event_of() {
    Event event;
    format::visit_fields(format::Of<Event>(), [&](auto, auto member, const format::FieldText&) {
      using Value = std::remove_reference_t<decltype(event.*member)>;
      event.*member = static_cast<Value>(wild());
    });
    if constexpr (std::is_same_v<Event, format::Alloc>) {
      event.site = static_cast<std::uint32_t>(below(100));
      if (below(2) == 0) event.padding_bytes = 0;
    }
    if constexpr (std::is_same_v<Event, format::Free>) {
      const bool is_known = event.serial != format::kNoSerial;
      if (is_known) event.address = 0;
      event.in_op = is_known && event.in_op;
    }
    return event;
  }

 private:
  template <std::size_t... kKinds>
  AnyEvent wild_event(std::index_sequence<kKinds...>) {
    AnyEvent event;
    const std::uint64_t kind = below(sizeof...(kKinds));
    ((kind == kKinds ? void(event = wild_event_of<std::variant_alternative_t<kKinds, AnyEvent>>())
                     : void()),
     ...);
    return event;
  }

  std::mt19937_64 random_;
};

// A recording of several threads and devices: what is live at the start is adopted, then
// allocations, frees, tags, phases known later, marks. Site s is defined as sites()[s].
class RandomRecording {
 public:
  static constexpr std::uint32_t kSites = 40, kTensors = 12, kDevices = 3;

  RandomRecording(std::uint64_t seed, std::size_t count) : random_(seed) {
    while (sites_.size() < kSites) make_site();
    for (std::uint32_t id = 0; id < kTensors; ++id) {
      tensors_.push_back({static_cast<std::uint8_t>(id % 6), id, id + 1, id + 2});
    }
    for (std::uint64_t serial = 0; serial < 50; ++serial) {
      if (random_.below(2) == 0) adopt(serial);
    }
    next_serial_ = 50;
    while (events_.size() < count) step();
  }

  const std::vector<AnyEvent>& events() const { return events_; }
  const std::vector<format::Site>& sites() const { return sites_; }
  const std::vector<format::Tensor>& tensors() const { return tensors_; }

  void define(format::Encoder& encoder) const {
    for (std::uint8_t id = 0; id < kDevices; ++id) {
      encoder.define_device(
          id, {id == 0 ? std::uint8_t{PLIMSOLL_DEVICE_CPU} : std::uint8_t{PLIMSOLL_DEVICE_CUDA},
               id - 1});
    }
    for (std::uint32_t id = 1; id < 100; ++id) {
      encoder.define_name(id, "name" + std::to_string(id));
    }
    for (std::uint32_t id = 1; id < 20; ++id) {
      const std::vector<format::Frame> frames = {{id, id + 1, id}, {1, 2, 3}};
      encoder.define_stack(id, frames);
    }
    for (std::uint32_t id = 0; id < kSites; ++id) encoder.define_site(id, sites_[id]);
    for (std::uint32_t id = 0; id < kTensors; ++id) encoder.define_tensor(id, tensors_[id]);
  }

  // The whole file, its blocks closed at random places.
  TraceFile file() {
    TraceFile file;
    format::Encoder encoder(file);
    encoder.process({1, -1, 0});
    define(encoder);
    for (const AnyEvent& event : events_) {
      encode(encoder, event);
      if (random_.below(300) == 0) encoder.flush();
    }
    encoder.finish(now_);
    return file;
  }

 private:
  struct Live {
    std::uint64_t serial;
    std::uint64_t address;
    std::uint32_t thread;
  };

  void make_site() {
    const auto name = [&] { return static_cast<std::uint32_t>(random_.below(100)); };
    sites_.push_back({name(), name(), name(), name(), static_cast<std::uint32_t>(random_.below(20)),
                      static_cast<std::uint8_t>(random_.below(5)),
                      static_cast<std::uint8_t>(random_.below(kDevices))});
  }
  std::uint32_t site() { return static_cast<std::uint32_t>(random_.below(kSites)); }
  std::uint64_t new_address() {
    std::uint64_t address = 0;
    do {
      address = 0x7f00'0000'0000 + 64 * random_.below(1'000);
    } while (!addresses_.insert(address).second);
    return address;
  }
  void adopt(std::uint64_t serial) {
    const std::uint64_t address = new_address();
    events_.push_back(
        format::Alloc{++now_, 1, site(), serial, address, random_.below(5'000), true});
    live_.push_back({serial, address, 1});
  }
  void alloc() {
    if (live_.size() > 500) return;
    const auto thread = static_cast<std::uint32_t>(1 + random_.below(3));
    const std::uint64_t address = new_address();
    events_.push_back(format::Alloc{
        now_ += static_cast<std::int64_t>(random_.below(10'000)), thread, site(), next_serial_,
        address, random_.below(4) == 0 ? 4096 : random_.below(1'000'000), false});
    live_.push_back({next_serial_++, address, thread});
  }
  void free() {
    if (live_.empty()) return;
    const std::size_t place =
        random_.below(2) == 0 ? live_.size() - 1 : random_.below(live_.size());
    const Live gone = live_[place];
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(place));
    addresses_.erase(gone.address);
    const bool in_op = place == live_.size() && random_.below(2) == 0;
    events_.push_back(format::Free{now_ += static_cast<std::int64_t>(random_.below(5'000)),
                                   gone.thread, gone.serial, 0, in_op});
  }
  void mark() {
    const auto kind = static_cast<std::uint8_t>(random_.below(5));
    events_.push_back(format::Mark{now_ += 100, 1, kind, random_.below(100)});
  }
  void step() {
    const std::uint64_t dice = random_.below(100);
    if (dice < 48) return alloc();
    if (dice < 90) return free();
    if (dice < 92) return mark();
    if (live_.empty()) return;
    const Live& some = live_[random_.below(live_.size())];
    if (dice < 96) {
      events_.push_back(
          format::Tag{some.serial, static_cast<std::uint32_t>(random_.below(kTensors))});
    } else {
      events_.push_back(format::SetPhase{some.serial, static_cast<std::uint8_t>(random_.below(5))});
    }
  }

  RandomEvents random_;
  std::vector<format::Site> sites_;
  std::vector<format::Tensor> tensors_;
  std::vector<AnyEvent> events_;
  std::vector<Live> live_;
  std::set<std::uint64_t> addresses_;
  std::int64_t now_ = 1'700'000'000'000'000'000;
  std::uint64_t next_serial_ = 0;
};

}  // namespace plimsoll::tests

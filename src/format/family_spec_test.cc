// The codecs of the families (alloc, free, free requested) are written by hand. This test decodes
// their blocks slowly, from records.def and docs/format.md alone: fields in the order of their
// places, each if its flag is set. The result must match both the decoder and the encoded events.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "format/block.h"
#include "format/block_stream.h"
#include "format/definition_decoder.h"
#include "format/fields.h"
#include "tests/support/random_events.h"
#include "tests/support/trace_file.h"

namespace plimsoll::format {
namespace {

using tests::AnyEvent;
using tests::text_of;
using tests::texts_of;

class SpecReader {
 public:
  std::vector<std::string> read(std::span<const std::byte> payload) {
    FieldReader fields(payload);
    state_.time_ns = fields.signed_varint();
    state_.thread = fields.u32();
    state_.next_serial = fields.varint();
    last_address_ = fields.varint();
    last_site_.reset();
    sites_.clear();
    followers_.clear();
    std::vector<std::string> events;
    while (fields.left() > 0) read_record(fields, events);
    EXPECT_TRUE(fields.is_whole());
    return events;
  }

 private:
  struct Last {
    std::uint64_t size_bytes = 0, address = 0, padding_bytes = 0;
  };

  void read_record(FieldReader& fields, std::vector<std::string>& events) {
    first_ = fields.u8();
    const unsigned family = first_ % 4;
#define PLIMSOLL_FAMILY(Struct, method, number) \
  if (family == number) return events.push_back(text_of(read_family<Struct>(fields)));
#include "format/records.def"
    read_other(fields, first_ / 4, events);
  }

  template <typename Event>
  Event read_family(FieldReader& fields) {
    Event event;
    using Step = std::pair<int, std::function<void()>>;
    std::vector<Step> steps;
    visit_fields(Of<Event>(), [&](auto wire, auto member, const FieldText& text) {
      // Fields without a place are known before the others, or from the first byte.
      steps.emplace_back(text.place, [&fields, &event, wire, member, this] {
        take(wire, fields, event, event.*member);
      });
    });
    std::ranges::stable_sort(steps, {}, &Step::first);
    for (const auto& [place, step] : steps) step();
    if constexpr (std::is_same_v<Event, Alloc>) remember(event);
    return event;
  }

  bool is_set(unsigned bit) const { return (first_ >> bit) % 2 == 1; }
  Last last_of(std::uint32_t site) const {
    const auto found = sites_.find(site);
    return found != sites_.end() ? found->second : Last{.address = last_address_};
  }
  void remember(const Alloc& event) {
    sites_[event.site] = {event.size_bytes, event.address, event.padding_bytes};
    last_address_ = event.address;
    // As in the format: the first site of a block is stored as the successor of site 0, if site 0
    // has occurred in the block.
    const std::uint32_t before = last_site_.value_or(0);
    if (sites_.contains(before)) followers_[before] = event.site;
    last_site_ = event.site;
  }

  template <typename Event>
  void take(wire::Time wire, FieldReader& fields, Event& event, std::int64_t& value) {
    wire.take(fields, state_, event, value);
  }
  template <typename Event>
  void take(wire::Thread, FieldReader&, Event&, std::uint32_t& value) {
    value = state_.thread;
  }
  void take(wire::SiteUnlessPredicted, FieldReader& fields, Alloc&, std::uint32_t& value) {
    const std::uint32_t predicted = followers_[last_site_.value_or(0)];
    value = is_set(6) ? predicted : fields.u32();
  }
  void take(wire::NextSerial, FieldReader&, Alloc&, std::uint64_t& value) {
    value = state_.next_serial++;
  }
  void take(wire::SizeUnlessSame, FieldReader& fields, Alloc& event, std::uint64_t& value) {
    value = is_set(2) ? last_of(event.site).size_bytes : fields.varint();
  }
  void take(wire::AddressUnlessPredicted, FieldReader& fields, Alloc& event, std::uint64_t& value) {
    value = last_of(event.site).address;
    if (is_set(3)) return;
    const auto step = static_cast<std::uint64_t>(fields.signed_varint());
    value += is_set(4) ? step : step * 64;
  }
  void take(wire::AdoptedFlag, FieldReader&, Alloc&, bool& value) { value = is_set(5); }
  void take(wire::PaddingIfOther, FieldReader& fields, Alloc& event, std::uint64_t& value) {
    value = is_set(7) ? static_cast<std::uint64_t>(fields.signed_varint())
                      : last_of(event.site).padding_bytes;
  }
  template <typename Event>
  void take(wire::BackInFirstByte, FieldReader& fields, Event&, std::uint64_t& value) {
    std::uint64_t steps = first_ >> 3;
    if (steps == 31) steps += fields.varint();
    value = state_.next_serial - 1 - steps;
  }
  template <typename Event>
  void take(wire::Absent, FieldReader&, Event&, std::uint64_t&) {}
  template <typename Event>
  void take(wire::InOpFlag, FieldReader&, Event&, bool& value) {
    value = is_set(2);
  }

  void read_other(FieldReader& fields, unsigned kind, std::vector<std::string>& events) {
    switch (static_cast<EventKind>(kind)) {
      case EventKind::kSetTime:
        return state_.pass_time(static_cast<std::uint64_t>(fields.signed_varint()));
      case EventKind::kSetThread:
        state_.thread = fields.u32();
        return;
      case EventKind::kSetSerial:
        state_.next_serial += static_cast<std::uint64_t>(fields.signed_varint());
        return;
      case EventKind::kFreeUnknown: {
        Free event;
        wire::Time::take(fields, state_, event, event.time_ns);
        event.thread = state_.thread;
        event.address = fields.varint();
        return events.push_back(text_of(event));
      }
      case EventKind::kUses:  // end_uses_test.cc
        fields.bytes(fields.varint());
        return;
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  case EventKind::k##Struct:                            \
    return events.push_back(text_of(take_fields<Struct>(fields, state_)));
#define PLIMSOLL_SKIPPABLE_EVENT(Struct, method, number, meaning)       \
  case EventKind::k##Struct: {                                          \
    FieldReader own(fields.bytes(fields.varint()));                     \
    return events.push_back(text_of(take_fields<Struct>(own, state_))); \
  }
#include "format/records.def"
    }
    FAIL() << "unknown kind " << kind;
  }

  BlockState state_;
  unsigned first_ = 0;
  std::uint64_t last_address_ = 0;
  std::optional<std::uint32_t> last_site_;
  std::map<std::uint32_t, Last> sites_;
  std::map<std::uint32_t, std::uint32_t> followers_;
};

std::vector<std::string> read_by_spec(std::span<const std::byte> bytes) {
  BlockStream stream;
  SpecReader reader;
  std::vector<std::string> events;
  stream.push(bytes);
  while (const auto block = stream.next()) {
    if (block->head.kind != BlockKind::kEvents) continue;
    const auto some = reader.read(block->payload);
    events.insert(events.end(), some.begin(), some.end());
  }
  return events;
}

TEST(FamilySpec, describes_how_the_encoder_writes_any_event) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    tests::RandomEvents random(seed);
    std::vector<AnyEvent> events(2'000);
    tests::TraceFile file;
    Encoder encoder(file);
    for (AnyEvent& event : events) {
      event = random.wild_event();
      tests::encode(encoder, event);
      if (random.below(200) == 0) encoder.flush();
    }
    encoder.finish(0);
    ASSERT_EQ(read_by_spec(file.bytes()), texts_of(events)) << "seed " << seed;
  }
}

TEST(FamilySpec, describes_how_the_decoder_reads_recordings) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    tests::RandomRecording recording(seed, 5'000);
    const tests::TraceFile file = recording.file();
    const auto events = read_by_spec(file.bytes());
    ASSERT_EQ(events, texts_of(recording.events())) << "seed " << seed;
    ASSERT_EQ(events, tests::read_file(file.bytes()).read.events) << "seed " << seed;
  }
}

}  // namespace
}  // namespace plimsoll::format

#include "record/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "plimsoll/recorder_c.h"

namespace plimsoll::record {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Records the events it receives, one token per event.
class Notes final : public EventReceiver {
 public:
  void on_alloc(const format::Alloc& event, const LiveTotals& live) noexcept override {
    note((event.is_adopted ? "adopt " : "alloc ") + std::to_string(event.serial) + " live " +
         std::to_string(live.bytes));
    last_site = event.site;
  }
  void on_free(const format::Free& event, const format::EndUse&) noexcept override {
    note(event.serial == format::kNoSerial
             ? "free unknown " + std::to_string(event.address)
             : (event.in_op ? "free in op " : "free ") + std::to_string(event.serial));
  }
  void on_free_requested(const format::FreeRequested& event,
                         const format::EndUse&) noexcept override {
    note((event.in_op ? "request in op " : "request ") + std::to_string(event.serial));
  }
  void on_reserved(const LiveTotals& live) noexcept override {
    reserved_bytes_ = live.device_reserved_bytes;
  }
  void on_segment(const format::Segment& event) noexcept override {
    note("segment " + std::to_string(event.action) + " held " + std::to_string(reserved_bytes_));
  }
  void on_out_of_memory(const format::OutOfMemory& event) noexcept override {
    note("out of " + std::to_string(event.size_bytes) + " left " +
         std::to_string(event.device_free_bytes));
    last_site = event.site;
  }
  void on_device_figure(const format::DeviceFigure& event) noexcept override {
    note("figure " + std::to_string(event.figure) + " of " + std::to_string(event.device) + " is " +
         std::to_string(event.value) + " by " + std::to_string(event.pid) + " named " +
         std::to_string(event.name));
  }
  void on_use(const UseChange& change) noexcept override { changes.push_back(change); }
  void on_ended(const Ended& gone) noexcept override { ended.push_back(gone); }
  void on_tag(const format::Tag& event) noexcept override {
    note("tag " + std::to_string(event.serial) + " as " + std::to_string(event.tensor));
  }
  void on_set_phase(const format::SetPhase& event) noexcept override {
    note("phase " + std::to_string(event.serial) + " is " + std::to_string(event.phase));
  }
  void on_mark(const format::Mark& event) noexcept override {
    note("mark " + std::to_string(event.kind) + " " + std::to_string(event.value));
  }
  void on_last_use(const format::LastUse&) noexcept override {}
  void on_holder_walk(const format::HolderWalk&) noexcept override {}
  void on_holder_link(const format::HolderLink&) noexcept override {}
  void on_held(const format::Held&) noexcept override {}
  void on_holder_cut(const format::HolderCut&) noexcept override {}
  void on_dropped(const format::Dropped&) noexcept override {}
  void on_evicted(const format::Evicted&) noexcept override {}

  std::vector<std::string> take() { return std::exchange(notes_, {}); }
  std::uint32_t last_site = 0;
  std::vector<UseChange> changes;
  std::vector<Ended> ended;

 private:
  void note(std::string text) { notes_.push_back(std::move(text)); }
  std::vector<std::string> notes_;
  std::uint64_t reserved_bytes_ = 0;
};

class LedgerTest : public testing::Test {
 protected:
  void emit(Kind kind, std::uint64_t address, std::uint64_t size, std::uint32_t op_or_tensor = 0,
            std::uint32_t thread = 0, std::uint8_t phase = 0, std::uint8_t device = 0) {
    Event event{};
    event.stamp = make_stamp(0, kind, phase);
    event.address = address;
    event.size = make_size(size, device);
    event.layer = 3;
    event.op_instance = op_or_tensor;
    ledger.apply(event, {}, {++time_ns, thread, &logs[thread]}, receivers);
  }
  void report_cuda(Kind kind, std::uint64_t address, std::uint64_t size,
                   const EventDetails& details = {}) {
    Event event{};
    event.stamp = make_stamp(0, kind, 0);
    event.address = address;
    event.size = make_size(size, 1);
    ledger.apply(event, slot_of(details), {++time_ns, 0, &logs[0]}, receivers);
  }
  void alloc(std::uint64_t address, std::uint64_t size, std::uint32_t op = 0,
             std::uint32_t thread = 0) {
    emit(Kind::kAlloc, address, size, op, thread);
  }
  void free(std::uint64_t address, std::uint32_t op = 0, std::uint32_t thread = 0) {
    emit(Kind::kFree, address, 0, op, thread);
  }

  Ledger ledger;
  Notes notes;
  std::vector<EventReceiver*> receivers{&notes};
  OpLog logs[2];
  std::int64_t time_ns = 0;
};

TEST_F(LedgerTest, a_figure_of_the_driver_is_reported_unchanged) {
  emit(Kind::kDeviceFigure, 1 << 30, PLIMSOLL_FIGURE_PROCESS, 42, 0, 0, 1);
  EXPECT_THAT(notes.take(), ElementsAre("figure 6 of 1 is 1073741824 by 42 named 3"));
  EXPECT_EQ(ledger.live_count(), 0u);
}

TEST_F(LedgerTest, a_free_ends_the_allocation_at_its_address) {
  alloc(64, 10);
  alloc(128, 20);
  free(64);
  EXPECT_THAT(notes.take(), ElementsAre("alloc 0 live 10", "alloc 1 live 30", "free 0"));
  EXPECT_EQ(ledger.live_bytes(), 20u);
  EXPECT_EQ(ledger.rows().size(), 1u);
}

TEST_F(LedgerTest, an_allocation_over_a_live_one_ends_it) {
  alloc(64, 10);
  alloc(64, 20);
  EXPECT_THAT(notes.take(), ElementsAre("alloc 0 live 10", "free 0", "alloc 1 live 20"));
  EXPECT_EQ(ledger.replaced(), 1u);
}

TEST_F(LedgerTest, an_unmatched_free_is_reported_with_its_address) {
  free(64);
  EXPECT_THAT(notes.take(), ElementsAre("free unknown 64"));
  EXPECT_EQ(ledger.unmatched(), 1u);
}

TEST_F(LedgerTest, an_address_on_two_devices_is_two_addresses) {
  emit(Kind::kAlloc, 64, 10, 0, 0, 0, 0);
  emit(Kind::kAlloc, 64, 20, 0, 0, 0, 1);
  emit(Kind::kFree, 64, 0, 0, 0, 0, 0);
  EXPECT_EQ(ledger.live_bytes(), 20u);
  EXPECT_EQ(ledger.replaced(), 0u);
}

TEST_F(LedgerTest, nothing_is_live_at_address_0) {
  alloc(0, 10);
  free(0);
  emit(Kind::kAdopt, 0, 10);
  EXPECT_THAT(notes.take(), IsEmpty());
}

TEST_F(LedgerTest, a_free_within_the_operator_of_its_allocation_is_marked) {
  alloc(64, 10, 7);
  alloc(128, 10, 7);
  alloc(192, 10, 7);
  alloc(256, 10, 0);
  notes.take();
  free(64, 7);
  free(128, 8);
  free(192, 7, 1);  // an operator with this number on another thread
  free(256, 0);
  EXPECT_THAT(notes.take(), ElementsAre("free in op 0", "free 1", "free 2", "free 3"));
}

TEST_F(LedgerTest, adopting_a_live_allocation_only_tags_it) {
  ledger.roles() = {PLIMSOLL_ROLE_PARAMETER};
  alloc(64, 10);
  emit(Kind::kAdopt, 64, 99, 1);
  emit(Kind::kAdopt, 128, 5, 1);
  emit(Kind::kAdopt, 192, 5, 0);
  EXPECT_THAT(notes.take(), ElementsAre("alloc 0 live 10", "tag 0 as 1", "adopt 1 live 15",
                                        "tag 1 as 1", "adopt 2 live 20"));
}

TEST_F(LedgerTest, the_role_of_highest_precedence_wins) {
  ledger.roles() = {PLIMSOLL_ROLE_KNOWN, PLIMSOLL_ROLE_GRADIENT, PLIMSOLL_ROLE_PARAMETER,
                    PLIMSOLL_ROLE_BUFFER};
  alloc(64, 10);
  notes.take();
  for (const std::uint32_t tensor : {1u, 2u, 1u, 4u, 2u, 3u, 2u, 9u, 0u})
    emit(Kind::kTag, 64, 0, tensor);
  EXPECT_THAT(notes.take(), ElementsAre("tag 0 as 1", "tag 0 as 2", "tag 0 as 3"));
  emit(Kind::kTag, 4096, 0, 1);
  EXPECT_THAT(notes.take(), IsEmpty());
}

TEST_F(LedgerTest, a_retroactive_phase_applies_to_all_of_the_running_operator) {
  alloc(64, 10, 6);
  alloc(128, 10, 7);
  alloc(192, 10, 7);
  alloc(256, 10, 7, 1);  // on another thread
  free(128, 7);
  notes.take();
  emit(Kind::kSetPhase, 0, 0, 7, 0, PLIMSOLL_PHASE_FORWARD);
  EXPECT_THAT(notes.take(), ElementsAre("phase 1 is 1", "phase 2 is 1"));
  emit(Kind::kSetPhase, 0, 0, 7, 0, PLIMSOLL_PHASE_FORWARD);
  EXPECT_THAT(notes.take(), IsEmpty());  // it is already so
  emit(Kind::kSetPhase, 0, 0, 6, 0, PLIMSOLL_PHASE_FORWARD);
  EXPECT_THAT(notes.take(), IsEmpty());  // the operator has ended
  alloc(320, 10, 8);
  emit(Kind::kSetPhase, 0, 0, 0, 0, PLIMSOLL_PHASE_FORWARD);
  EXPECT_THAT(notes.take(), ElementsAre(testing::HasSubstr("alloc")));
}

TEST_F(LedgerTest, the_log_of_an_endless_operator_is_bounded_by_its_live_set) {
  alloc(64, 10, 7);
  for (int i = 0; i < 200'000; ++i) {
    alloc(128, 10, 7);
    free(128, 7);
  }
  EXPECT_LE(logs[0].allocations.size(), OpLog::kMost);
  notes.take();
  emit(Kind::kSetPhase, 0, 0, 7, 0, PLIMSOLL_PHASE_FORWARD);
  EXPECT_EQ(notes.take().front(), "phase 0 is 1");
}

TEST_F(LedgerTest, live_allocations_keep_their_phase_for_later_recordings) {
  alloc(64, 10, 7);
  emit(Kind::kSetPhase, 0, 0, 7, 0, PLIMSOLL_PHASE_FORWARD);
  std::uint32_t site = 0;
  ledger.rows().for_each([&](const LiveRow& row) { site = row.site; });
  EXPECT_EQ(ledger.sites()[site].phase, PLIMSOLL_PHASE_FORWARD);
  EXPECT_EQ(ledger.sites()[site].layer, 3u);
}

TEST_F(LedgerTest, marks_pass_through) {
  emit(Kind::kMark, 12, PLIMSOLL_MARK_STEP);
  EXPECT_THAT(notes.take(), ElementsAre("mark 0 12"));
}

TEST_F(LedgerTest, memory_that_calls_retain_grows_until_there_are_steps) {
  const auto grows = [&](std::uint64_t mark, int count, std::uint64_t& address) {
    for (int i = 0; i < count; ++i) {
      alloc(address += 64, 1 << 20);
      emit(Kind::kMark, 0, mark);
    }
    return ledger.take_growth();
  };
  std::uint64_t address = 64;
  EXPECT_FALSE(grows(PLIMSOLL_MARK_CALL_END, 15, address));
  EXPECT_TRUE(grows(PLIMSOLL_MARK_CALL_END, 1, address));
  EXPECT_FALSE(grows(PLIMSOLL_MARK_STEP, 15, address)) << "counted from the first step";
  EXPECT_TRUE(grows(PLIMSOLL_MARK_STEP, 1, address));
}

TEST_F(LedgerTest, an_unknown_phase_is_other) {
  emit(Kind::kAlloc, 64, 10, 0, 0, 14);
  EXPECT_EQ(ledger.sites()[notes.last_site].phase, PLIMSOLL_PHASE_OTHER);
}

TEST_F(LedgerTest, blocks_count_by_block_size_and_are_reported_with_padding) {
  report_cuda(Kind::kAllocBlock, 4096, 1024, {.requested_bytes = 1000, .stream = 7, .pool = 3});
  EXPECT_THAT(notes.take(), ElementsAre("alloc 0 live 1024"));
  EXPECT_EQ(ledger.sites()[notes.last_site].stream, 7u);
  EXPECT_EQ(ledger.sites()[notes.last_site].pool, 3u);
  EXPECT_EQ(ledger.devices()[1].live_bytes, 1024u);
  EXPECT_EQ(ledger.devices()[1].requested_bytes, 1000u);
}

TEST_F(LedgerTest, a_block_waiting_for_a_stream_is_active_and_not_live) {
  report_cuda(Kind::kAllocBlock, 4096, 1024, {.requested_bytes = 1000});
  report_cuda(Kind::kFreeRequested, 4096, 0);
  report_cuda(Kind::kFreeRequested, 4096, 0);  // a second request has no effect
  EXPECT_THAT(notes.take(), ElementsAre("alloc 0 live 1024", "request 0"));
  EXPECT_EQ(ledger.devices()[1].live_bytes, 0u);
  EXPECT_EQ(ledger.devices()[1].requested_bytes, 0u);
  EXPECT_EQ(ledger.devices()[1].active_bytes, 1024u);
  EXPECT_EQ(ledger.live_count(), 0u);
  report_cuda(Kind::kFree, 4096, 0);
  EXPECT_THAT(notes.take(), ElementsAre("free 0"));
  EXPECT_EQ(ledger.devices()[1].active_bytes, 0u);
  EXPECT_EQ(ledger.rows().size(), 0u);
}

TEST_F(LedgerTest, a_free_request_for_an_unknown_address_is_left_to_the_free) {
  report_cuda(Kind::kFreeRequested, 4096, 0);
  report_cuda(Kind::kFree, 4096, 0);
  EXPECT_THAT(notes.take(), ElementsAre("free unknown 4096"));
  EXPECT_EQ(ledger.unmatched(), 1u);
}

TEST_F(LedgerTest, segments_add_up_to_reserved_bytes) {
  const auto segment = [&](std::uint8_t action, std::uint64_t address, std::uint64_t size) {
    report_cuda(Kind::kSegment, address, size, {.action = action});
  };
  segment(PLIMSOLL_SEGMENT_ALLOC, 1000, 200);
  segment(PLIMSOLL_SEGMENT_MAP, 5000, 60);
  segment(PLIMSOLL_SEGMENT_MAP, 5060, 60);
  segment(PLIMSOLL_SEGMENT_UNMAP, 5020, 60);  // the end of one range and the beginning of the other
  segment(PLIMSOLL_SEGMENT_FREE, 1000, 200);
  segment(PLIMSOLL_SEGMENT_FREE, 1000, 200);  // the segment is no longer known
  EXPECT_THAT(notes.take(),
              ElementsAre("segment 0 held 200", "segment 2 held 260", "segment 2 held 320",
                          "segment 3 held 260", "segment 1 held 60", "segment 1 held 60"));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> held;
  ledger.segments().for_each(
      [&](const format::Segment& each) { held.emplace_back(each.address, each.size_bytes); });
  EXPECT_THAT(held, ElementsAre(std::pair(5000, 20), std::pair(5080, 40)));
  EXPECT_TRUE(ledger.devices()[1].has_segments);
  EXPECT_FALSE(ledger.devices()[0].has_segments);
}

TEST_F(LedgerTest, running_out_of_memory_is_reported_with_its_site) {
  report_cuda(Kind::kOutOfMemory, 0, 9000, {.stream = 5});
  EXPECT_THAT(notes.take(), ElementsAre("out of 9000 left 0"));
  EXPECT_EQ(ledger.sites()[notes.last_site].stream, 5u);
  EXPECT_EQ(ledger.sites()[notes.last_site].device, 1);
}

TEST_F(LedgerTest, roles_sum_to_live_bytes) {
  ledger.roles() = {PLIMSOLL_ROLE_KNOWN, PLIMSOLL_ROLE_GRADIENT};
  const auto role = [&](plimsoll_role of) { return ledger.devices()[0].uses[of]; };
  alloc(0x1000, 100);
  alloc(0x2000, 30);
  EXPECT_EQ(role(PLIMSOLL_ROLE_KNOWN), 130u);
  emit(Kind::kTag, 0x1000, 0, 1);  // already a tensor: it keeps its role
  EXPECT_TRUE(notes.changes.empty());
  emit(Kind::kTag, 0x1000, 0, 2);
  EXPECT_EQ(role(PLIMSOLL_ROLE_GRADIENT), 100u);
  EXPECT_EQ(role(PLIMSOLL_ROLE_KNOWN), 30u);
  ASSERT_EQ(notes.changes.size(), 1u);
  EXPECT_EQ(notes.changes[0].serial, 0u);
  EXPECT_EQ(notes.changes[0].size_bytes, 100u);
  EXPECT_EQ(notes.changes[0].to, PLIMSOLL_ROLE_GRADIENT);
  free(0x1000);
  EXPECT_EQ(role(PLIMSOLL_ROLE_GRADIENT), 0u);
  EXPECT_EQ(role(PLIMSOLL_ROLE_KNOWN), 30u);
}

TEST_F(LedgerTest, activation_is_a_role_of_adopted_memory_only) {
  ledger.roles() = {PLIMSOLL_ROLE_KNOWN, PLIMSOLL_ROLE_ACTIVATION, PLIMSOLL_ROLE_INPUT};
  const auto use = [&](std::uint8_t of) { return ledger.devices()[0].uses[of]; };
  emit(Kind::kAdopt, 0x1000, 100, 1);
  emit(Kind::kAdopt, 0x1000, 100, 2);
  alloc(0x2000, 30);
  emit(Kind::kTag, 0x2000, 0, 2);
  EXPECT_EQ(use(PLIMSOLL_ROLE_ACTIVATION), 100u);
  EXPECT_EQ(use(PLIMSOLL_ROLE_KNOWN), 30u);
  emit(Kind::kTag, 0x1000, 0, 1);  // a later search
  EXPECT_EQ(use(PLIMSOLL_ROLE_ACTIVATION), 100u);
  emit(Kind::kTag, 0x1000, 0, 3);
  EXPECT_EQ(use(PLIMSOLL_ROLE_INPUT), 100u);
}

TEST_F(LedgerTest, memory_without_a_role_is_used_by_its_phase) {
  const auto use = [&](std::uint8_t of) { return ledger.devices()[0].uses[of]; };
  emit(Kind::kAlloc, 0x1000, 100, 7, 0, PLIMSOLL_PHASE_FORWARD);
  emit(Kind::kAlloc, 0x2000, 30, 7, 0, PLIMSOLL_PHASE_BACKWARD);
  emit(Kind::kAdopt, 0x3000, 5, 0, 0, PLIMSOLL_PHASE_FORWARD);
  alloc(0x4000, 2, 9);
  EXPECT_EQ(use(PLIMSOLL_USE_FORWARD), 100u);
  EXPECT_EQ(use(PLIMSOLL_USE_BACKWARD), 30u);
  EXPECT_EQ(use(PLIMSOLL_USE_ADOPTED), 5u);
  EXPECT_EQ(use(PLIMSOLL_ROLE_KNOWN), 2u);
  emit(Kind::kSetPhase, 0, 0, 9, 0, PLIMSOLL_PHASE_FORWARD);
  EXPECT_EQ(use(PLIMSOLL_USE_FORWARD), 102u);
  EXPECT_EQ(use(PLIMSOLL_ROLE_KNOWN), 0u);
  notes.changes.clear();
  free(0x1000, 7);  // in the operator that allocated it
  ASSERT_EQ(notes.changes.size(), 1u);
  EXPECT_EQ(notes.changes[0].from, PLIMSOLL_USE_FORWARD);
  EXPECT_EQ(notes.changes[0].to, PLIMSOLL_USE_TEMPORARY);
  free(0x2000);
  EXPECT_EQ(notes.changes.size(), 1u);
  ASSERT_EQ(notes.ended.size(), 2u);
  EXPECT_EQ(notes.ended[0].use, PLIMSOLL_USE_TEMPORARY);
  EXPECT_EQ(notes.ended[1].use, PLIMSOLL_USE_BACKWARD);
  EXPECT_EQ(use(PLIMSOLL_USE_FORWARD), 2u);
  EXPECT_EQ(use(PLIMSOLL_USE_BACKWARD), 0u);
}

}  // namespace
}  // namespace plimsoll::record

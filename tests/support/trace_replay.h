// Replays a trace file in the slow and obvious way: with a map of live allocations. Impossible
// events are listed in `violations`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "format/decoder.h"
#include "format/records.h"
#include "format/segment_set.h"

namespace plimsoll::tests {

struct TraceReplay : format::NoRecords {
  enum class Kind : std::uint8_t { kAlloc, kFree };

  std::map<std::uint32_t, std::string> names;
  std::map<std::uint32_t, std::vector<format::Frame>> stacks;
  std::map<std::uint32_t, format::Site> sites;
  std::map<std::uint32_t, format::Tensor> tensors;
  std::map<std::string, std::string> meta;
  std::map<std::uint64_t, format::Alloc> live;  // by serial
  std::map<std::uint64_t, std::uint32_t> tags;  // the last tag of each live allocation
  std::vector<format::Alloc> allocs;
  std::vector<format::Free> frees;
  std::vector<format::EndUse> end_uses;
  std::vector<Kind> order;  // of allocs and frees
  std::vector<format::SetPhase> phases;
  std::vector<format::Mark> marks;
  std::uint64_t live_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t adopted = 0;
  std::uint64_t unmatched = 0;
  std::uint64_t in_op = 0;
  std::uint64_t dropped = 0;
  std::set<std::uint64_t> pending;  // serials
  std::vector<format::Segment> segments;
  format::SegmentSet held;
  std::vector<format::OutOfMemory> out_of_memory;
  std::vector<format::DeviceFigure> figures;
  std::vector<format::HolderWalk> walks;
  std::vector<format::HolderLink> links;
  std::vector<format::Held> held_memory;
  std::vector<format::HolderCut> cuts;
  std::vector<format::Setting> settings;
  std::vector<format::Notice> notices;
  std::vector<format::Function> functions;
  std::vector<format::Module> modules;
  std::uint64_t evicted = 0;
  bool is_ended = false;
  std::optional<format::FileState> state;
  std::uint64_t damaged_blocks = 0;
  std::vector<std::string> violations;

  void on_name(std::uint32_t id, std::string_view text) { names[id] = std::string(text); }
  void on_stack(std::uint32_t id, std::span<const format::Frame> frames) {
    stacks[id] = {frames.begin(), frames.end()};
  }
  void on_site(std::uint32_t id, const format::Site& site) { sites[id] = site; }
  void on_tensor(std::uint32_t id, const format::Tensor& tensor) { tensors[id] = tensor; }
  void on_meta(std::string_view key, std::string_view value) {
    meta[std::string(key)] = std::string(value);
  }

  void on_alloc(const format::Alloc& alloc) {
    if (!live.emplace(alloc.serial, alloc).second) violate("alive twice", alloc.serial);
    if (!sites.contains(alloc.site)) violate("site is not defined", alloc.site);
    if (!at_address_.emplace(alloc.address).second)
      violate("two are alive at one address", alloc.serial);
    live_bytes += alloc.size_bytes + alloc.padding_bytes;
    peak_bytes = std::max(peak_bytes, live_bytes);
    adopted += alloc.is_adopted ? 1 : 0;
    allocs.push_back(alloc);
    order.push_back(Kind::kAlloc);
  }
  void on_free(const format::Free& free) {
    frees.push_back(free);
    order.push_back(Kind::kFree);
    in_op += free.in_op ? 1 : 0;
    if (free.serial == format::kNoSerial) {
      ++unmatched;
      if (at_address_.contains(free.address)) violate("unmatched, but alive", free.address);
      return;
    }
    const auto found = live.find(free.serial);
    if (found == live.end()) return violate("freed, but not alive", free.serial);
    const std::uint64_t size_bytes = found->second.size_bytes + found->second.padding_bytes;
    if (size_bytes > live_bytes) violate("less than nothing is alive", free.serial);
    live_bytes -= size_bytes;
    pending.erase(free.serial);
    at_address_.erase(found->second.address);
    tags.erase(free.serial);
    live.erase(found);
  }
  void on_uses(const format::EndUses& uses) {
    end_uses.insert(end_uses.end(), uses.entries.begin(), uses.entries.begin() + uses.count);
  }
  void on_free_requested(const format::FreeRequested& free) {
    if (!live.contains(free.serial)) violate("given back, but not alive", free.serial);
    if (!pending.insert(free.serial).second) violate("given back twice", free.serial);
  }
  void on_segment(const format::Segment& segment) {
    if (!sites.contains(segment.site)) violate("site is not defined", segment.site);
    segments.push_back(segment);
    held.apply(segment);
  }
  void on_setting(const format::Setting& setting) { settings.push_back(setting); }
  void on_function(const format::Function& function) { functions.push_back(function); }
  void on_module(const format::Module& module) { modules.push_back(module); }
  void on_notice(const format::Notice& notice) { notices.push_back(notice); }
  void on_out_of_memory(const format::OutOfMemory& failed) { out_of_memory.push_back(failed); }
  void on_device_figure(const format::DeviceFigure& figure) { figures.push_back(figure); }
  void on_holder_walk(const format::HolderWalk& walk) { walks.push_back(walk); }
  void on_holder_link(const format::HolderLink& link) { links.push_back(link); }
  void on_held(const format::Held& held_here) {
    if (!live.contains(held_here.serial)) violate("held, but not alive", held_here.serial);
    held_memory.push_back(held_here);
  }
  void on_holder_cut(const format::HolderCut& cut) { cuts.push_back(cut); }
  void on_tag(const format::Tag& tag) {
    if (!live.contains(tag.serial)) violate("tagged, but not alive", tag.serial);
    if (!tensors.contains(tag.tensor)) violate("tensor is not defined", tag.tensor);
    tags[tag.serial] = tag.tensor;
  }
  void on_set_phase(const format::SetPhase& event) { phases.push_back(event); }
  void on_mark(const format::Mark& mark) { marks.push_back(mark); }
  void on_dropped(const format::Dropped& event) { dropped += event.count; }
  void on_evicted(const format::Evicted& event) { evicted += event.count; }
  void on_end(const format::End&) { is_ended = true; }
  void on_file_state(const format::FileState& reported) { state = reported; }

  void violate(const char* what, std::uint64_t number) {
    if (violations.size() < 20) violations.push_back(what + (": " + std::to_string(number)));
  }

  static TraceReplay of_bytes(std::span<const std::byte> bytes) {
    TraceReplay replay;
    format::Decoder<TraceReplay> decoder(replay);
    decoder.push(bytes);
    decoder.finish();
    replay.damaged_blocks = decoder.damage().blocks;
    return replay;
  }
  static std::vector<std::byte> bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + text.size()};
  }
  static TraceReplay of_file(const std::string& path) { return of_bytes(bytes_of(path)); }

 private:
  std::set<std::uint64_t> at_address_;
};

}  // namespace plimsoll::tests

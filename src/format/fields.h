// How each field of a record is written: one type per encoding, and visit_fields(), generated from
// records.def, which passes the encoding, the member and the names of each field in file order.
//
//   visit_fields(Of<Segment>(), [&](auto wire, auto member, const FieldText& text) {
//     at = wire.put(at, state, segment, segment.*member);
//   });
//
// put() requires space for kMaxVarintBytes; take() reads from a FieldReader, or from RawFields,
// which must be followed by enough readable bytes. Encodings without these two belong to families,
// whose codec is written by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "format/names.h"
#include "format/records.h"
#include "format/wire.h"

namespace plimsoll::format {

// The state that the records of an event block are relative to.
struct BlockState {
  std::int64_t time_ns = 0;
  std::uint32_t thread = 0;
  std::uint64_t next_serial = 0;

  void pass_time(std::uint64_t step_ns) noexcept {
    time_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(time_ns) + step_ns);
  }
  std::uint64_t time_since(std::int64_t later_ns) const noexcept {
    return static_cast<std::uint64_t>(later_ns) - static_cast<std::uint64_t>(time_ns);
  }
  // Converts a serial to the number of allocations since it, and back: it is its own inverse.
  std::uint64_t back(std::uint64_t serial) const noexcept { return next_serial - 1 - serial; }
};

// Unchecked reads; the owner of `at` must compare it with the end.
struct RawFields {
  const std::byte*& at;
  std::uint64_t varint() noexcept { return take_varint(at); }
  std::int64_t signed_varint() noexcept { return unzigzag(take_varint(at)); }
  std::uint8_t u8() noexcept { return std::to_integer<std::uint8_t>(*at++); }
};

namespace wire {

// What a name is used for, from least to most private; redaction depends on it.
enum class NameUse : std::uint8_t {
  kPublic,      // dtypes, shapes, settings
  kOperator,    // of torch, or registered by the program
  kIdentifier,  // layers, tensors
  kText         // regions, processes, notices, pools
};

struct Varint {
  static constexpr std::string_view kNote = "";
  template <typename Record, typename Value>
  static std::byte* put(std::byte* at, BlockState&, const Record&, Value value) noexcept {
    return put_varint(at, static_cast<std::uint64_t>(value));
  }
  template <typename Reader, typename Record, typename Value>
  static void take(Reader& reader, BlockState&, Record&, Value& value) noexcept {
    value = static_cast<Value>(reader.varint());
  }
};

// A varint that a dump prints in hexadecimal.
struct Address : Varint {};

// The id of a name.
template <NameUse kNameUse>
struct NameOf : Varint {
  static constexpr std::string_view kNote = "name";
  static constexpr NameUse kUse = kNameUse;
};

// The id of the name of a file, function, or class of a link: redaction depends on the whole
// record.
struct FrameName : Varint {
  static constexpr std::string_view kNote = "name";
};

struct Zigzag {
  static constexpr std::string_view kNote = "zigzag";
  template <typename Record, typename Value>
  static std::byte* put(std::byte* at, BlockState&, const Record&, Value value) noexcept {
    return put_varint(at, zigzag(static_cast<std::int64_t>(value)));
  }
  template <typename Reader, typename Record, typename Value>
  static void take(Reader& reader, BlockState&, Record&, Value& value) noexcept {
    value = static_cast<Value>(reader.signed_varint());
  }
};

struct Byte {
  static constexpr std::string_view kNote = "byte";
  template <typename Record>
  static std::byte* put(std::byte* at, BlockState&, const Record&, std::uint8_t value) noexcept {
    *at++ = static_cast<std::byte>(value);
    return at;
  }
  template <typename Reader, typename Record>
  static void take(Reader& reader, BlockState&, Record&, std::uint8_t& value) noexcept {
    value = reader.u8();
  }
};

// A byte whose values have names.
template <const auto& kNameTable>
struct ByteOf : Byte {
  static constexpr const auto& kNames = kNameTable;
};

// A field that the first version lacked: written only if it or another such field is not 0. Readers
// read it if the record is long enough.
template <typename Inner>
struct Later : Inner {};

// The same, for a last field: it is written only if it is not 0 itself.
template <typename Inner>
struct IfKnown : Later<Inner> {};

// A field that a dump prints only if it is not 0.
template <typename Inner>
struct OrNone : Inner {};

// 0 or 1, zigzag, the bits of a double, or a name, according to the type, which precedes it.
struct SettingValue {
  static constexpr std::string_view kNote = "0 or 1, zigzag, the bits of a double, a name";
  template <typename Record>
  static std::byte* put(std::byte* at, BlockState&, const Record& setting,
                        std::uint64_t value) noexcept {
    const bool is_signed = setting.type == kIntegerSetting;
    return put_varint(at, is_signed ? zigzag(static_cast<std::int64_t>(value)) : value);
  }
  template <typename Reader, typename Record>
  static void take(Reader& reader, BlockState&, Record& setting, std::uint64_t& value) noexcept {
    value = reader.varint();
    if (setting.type == kIntegerSetting) value = static_cast<std::uint64_t>(unzigzag(value));
  }
};

// ---- relative to earlier records of the block -------------------------------------------------

// The time since the last one, which it updates. If time goes back, an earlier record sets it.
struct Time {
  static constexpr std::string_view kNote = "";
  template <typename Record>
  static std::byte* put(std::byte* at, BlockState& state, const Record&,
                        std::int64_t time_ns) noexcept {
    at = put_varint(at, state.time_since(time_ns));
    state.time_ns = time_ns;
    return at;
  }
  template <typename Reader, typename Record>
  static void take(Reader& reader, BlockState& state, Record&, std::int64_t& time_ns) noexcept {
    state.pass_time(reader.varint());
    time_ns = state.time_ns;
  }
};

// The time since the last one, which it leaves unchanged, so that readers may skip the record.
struct TimeAside {
  static constexpr std::string_view kNote = "zigzag, since the last time, which it does not change";
  template <typename Record>
  static std::byte* put(std::byte* at, BlockState& state, const Record&,
                        std::int64_t time_ns) noexcept {
    return put_varint(at, zigzag(static_cast<std::int64_t>(state.time_since(time_ns))));
  }
  template <typename Reader, typename Record>
  static void take(Reader& reader, BlockState& state, Record&, std::int64_t& time_ns) noexcept {
    time_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(state.time_ns) +
                                        static_cast<std::uint64_t>(reader.signed_varint()));
  }
};

// Takes no bytes: a separate record precedes this one if the thread has changed.
struct Thread {
  static constexpr std::string_view kNote = "";
  template <typename Record>
  static std::byte* put(std::byte* at, BlockState&, const Record&, std::uint32_t) noexcept {
    return at;
  }
  template <typename Reader, typename Record>
  static void take(Reader&, BlockState& state, Record&, std::uint32_t& thread) noexcept {
    thread = state.thread;
  }
};

// How many allocations before the last one.
struct Back {
  static constexpr std::string_view kNote = "";
  template <typename Record>
  static std::byte* put(std::byte* at, BlockState& state, const Record&,
                        std::uint64_t serial) noexcept {
    return put_varint(at, state.back(serial));
  }
  template <typename Reader, typename Record>
  static void take(Reader& reader, BlockState& state, Record&, std::uint64_t& serial) noexcept {
    serial = state.back(reader.varint());
  }
};

// ---- fixed numbers ----------------------------------------------------------------------------

template <typename Number>
struct Fixed {
  static constexpr std::size_t kBytes = sizeof(Number);
  template <typename Value>
  static std::byte* put(std::byte* at, Value value) noexcept {
    return store(at, static_cast<Number>(value));
  }
  template <typename Value>
  static void take(const std::byte*& at, Value& value) noexcept {
    value = static_cast<Value>(load<Number>(at));
    at += kBytes;
  }
};
using Fixed32 = Fixed<std::uint32_t>;
using Fixed64 = Fixed<std::uint64_t>;
struct FixedState : Fixed32 {
  static constexpr const auto& kNames = kRecordingStateNames;
};

// ---- of families ------------------------------------------------------------------------------

struct SiteUnlessPredicted {
  static constexpr std::string_view kNote = "unless bit 6";
};
struct SizeUnlessSame {
  static constexpr std::string_view kNote = "unless bit 2";
};
struct AddressUnlessPredicted {
  static constexpr std::string_view kNote = "unless bit 3";
};
struct PaddingIfOther {
  static constexpr std::string_view kNote = "if bit 7";
};
struct BackInFirstByte {
  static constexpr std::string_view kNote = "if bits 3–7 are 31";
};
struct NextSerial {};
struct AdoptedFlag {};
struct InOpFlag {};
struct Absent {};

}  // namespace wire

struct FieldText {
  std::string_view key;    // in a dump
  std::string_view label;  // in docs/format.md
  int place = 0;           // position of a family's field in the file, from 1; 0: not a separate
                           // field
};

template <typename Record>
struct Of {};

#define PLIMSOLL_RECORD(Struct)                                             \
  template <typename Visit>                                                 \
  constexpr void visit_fields(Of<Struct>, [[maybe_unused]] Visit&& visit) { \
    using Record = Struct;                                                  \
    using namespace wire;
#define PLIMSOLL_FIELD(type, name, initial, Wire, key, label) \
  visit(Wire(), &Record::name, FieldText{key, label});
#define PLIMSOLL_FAMILY_FIELD(place, type, name, initial, Wire, key, label) \
  visit(Wire(), &Record::name, FieldText{key, label, place});
#define PLIMSOLL_END(Struct) }
#include "format/records.def"

template <typename Wire, typename Record>
constexpr bool has_field() {
  bool found = false;
  visit_fields(Of<Record>(), [&](auto wire, auto, const FieldText&) {
    found = found || std::is_same_v<decltype(wire), Wire>;
  });
  return found;
}

template <typename Wire>
inline constexpr bool kIsLater = false;
template <typename Inner>
inline constexpr bool kIsLater<wire::Later<Inner>> = true;
template <typename Inner>
inline constexpr bool kIsLater<wire::IfKnown<Inner>> = true;
template <typename Wire>
inline constexpr bool kIsIfKnown = false;
template <typename Inner>
inline constexpr bool kIsIfKnown<wire::IfKnown<Inner>> = true;
template <typename Wire>
inline constexpr bool kIsShownIfZero = !kIsLater<Wire>;
template <typename Inner>
inline constexpr bool kIsShownIfZero<wire::OrNone<Inner>> = false;

// Writes the fields of a record; each takes at most kMaxVarintBytes.
template <typename Record>
std::byte* put_fields(std::byte* at, BlockState& state, const Record& record) noexcept {
  bool has_later = false;
  visit_fields(Of<Record>(), [&](auto wire, auto member, const FieldText&) {
    if constexpr (kIsLater<decltype(wire)>) has_later = has_later || record.*member != 0;
  });
  visit_fields(Of<Record>(), [&](auto wire, auto member, const FieldText&) {
    if constexpr (kIsLater<decltype(wire)>) {
      if (!has_later) return;
    }
    if constexpr (kIsIfKnown<decltype(wire)>) {
      if (record.*member == 0) return;
    }
    at = wire.put(at, state, record, record.*member);
  });
  return at;
}

// Whether the record ends before this field. Only records with Later fields need Reader::left().
template <typename Wire, typename Reader>
bool is_absent(const Reader& reader) noexcept {
  if constexpr (kIsLater<Wire>) {
    return reader.left() == 0;
  } else {
    return false;
  }
}

template <typename Record, typename Reader>
Record take_fields(Reader& reader, BlockState& state) noexcept {
  Record record;
  visit_fields(Of<Record>(), [&](auto wire, auto member, const FieldText&) {
    if (is_absent<decltype(wire)>(reader)) return;
    wire.take(reader, state, record, record.*member);
  });
  return record;
}

}  // namespace plimsoll::format

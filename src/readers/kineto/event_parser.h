// EventParser is RapidJSON's SAX handler. It tracks its position in the document (trace events are
// the members of the root array, or of "traceEvents" in the root object), collects the fields of
// one event and passes it to the Recorder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "plimsoll/result.h"
#include "readers/kineto/recording.h"
#include "readers/kineto/window_stream.h"

namespace plimsoll::readers::kineto {

class EventParser {
 public:
  EventParser(WindowStream& stream, Recorder& recorder) : stream_(stream), recorder_(recorder) {}

  bool found_events() const { return events_depth_ != 0 || seen_events_; }
  // Why the handler stopped the parser, if it did.
  const std::optional<Error>& failure() const { return failure_; }

  // These names are RapidJSON's. Returning false stops the parser.
  bool Null() { return value({}); }
  bool Bool(bool) { return value({}); }
  bool Int(int) { return value({}); }  // numbers arrive as RawNumber
  bool Uint(unsigned) { return value({}); }
  bool Int64(std::int64_t) { return value({}); }
  bool Uint64(std::uint64_t) { return value({}); }
  bool Double(double) { return value({}); }
  bool RawNumber(const char* text, unsigned length, bool) { return value({text, length}); }
  bool String(const char* text, unsigned length, bool) { return value({text, length}); }
  bool Key(const char* text, unsigned length, bool);
  bool StartObject() { return open(Container::kObject); }
  bool StartArray() { return open(Container::kArray); }
  bool EndObject(unsigned) { return close(); }
  bool EndArray(unsigned) { return close(); }

 private:
  enum class Container : std::uint8_t { kObject, kArray };
  enum class Field : std::uint8_t {
    kOther,
    kTraceEvents,
    kHost,
    kDistributed,
    kRank,
    kWorldSize,
    kPhase,
    kCategory,
    kName,
    kPid,
    kTid,
    kTime,
    kDuration,
    kArgs,
    kDeviceType,
    kDeviceId,
    kBytes,
    kAddress,
    kTotalAllocated,
    kTotalReserved,
    kCallStack,
    kSequence,
    kForwardThread,
  };

  static Field field_of_root(std::string_view key);
  static Field field_of_event(std::string_view key);
  static Field field_of_args(std::string_view key);
  bool value(std::string_view text);
  void keep(std::string_view text);
  bool open(Container container);
  bool close();
  bool fail_list_of_lists(std::string_view value);
  bool fail(Error error);

  WindowStream& stream_;
  Recorder& recorder_;
  TraceEvent event_;
  std::optional<Error> failure_;
  std::uint32_t depth_ = 0;         // open containers
  std::uint32_t events_depth_ = 0;  // depth of the array of trace events; 0: not inside it
  Field field_ = Field::kOther;     // the last relevant key
  bool root_is_array_ = false;
  bool in_distributed_ = false;
  bool in_event_ = false;
  bool in_args_ = false;
  bool seen_events_ = false;
};

}  // namespace plimsoll::readers::kineto

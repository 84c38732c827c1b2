#include "readers/kineto/event_parser.h"

#include <string>
#include <utility>

#include "readers/kineto/number_text.h"

namespace plimsoll::readers::kineto {
namespace {

constexpr std::uint32_t kDeepest = 1000;
// The output of export_memory_timeline is a list of numbers in lists, or in lists of lists.
constexpr std::uint32_t kDeepestTimeline = 3;

}  // namespace

EventParser::Field EventParser::field_of_root(std::string_view key) {
  if (key == "traceEvents") return Field::kTraceEvents;
  if (key == "host_name") return Field::kHost;
  if (key == "distributedInfo") return Field::kDistributed;
  return Field::kOther;
}

EventParser::Field EventParser::field_of_event(std::string_view key) {
  if (key == "ph") return Field::kPhase;
  if (key == "cat") return Field::kCategory;
  if (key == "name") return Field::kName;
  if (key == "pid") return Field::kPid;
  if (key == "tid") return Field::kTid;
  if (key == "ts") return Field::kTime;
  if (key == "dur") return Field::kDuration;
  if (key == "args") return Field::kArgs;
  return Field::kOther;
}

EventParser::Field EventParser::field_of_args(std::string_view key) {
  if (key == "Device Type") return Field::kDeviceType;
  if (key == "Device Id") return Field::kDeviceId;
  if (key == "Bytes") return Field::kBytes;
  if (key == "Addr") return Field::kAddress;
  if (key == "Total Allocated") return Field::kTotalAllocated;
  if (key == "Total Reserved") return Field::kTotalReserved;
  if (key == "Call stack") return Field::kCallStack;
  if (key == "Sequence number") return Field::kSequence;
  if (key == "Fwd thread id") return Field::kForwardThread;
  return Field::kOther;
}

bool EventParser::Key(const char* text, unsigned length, bool) {
  const std::string_view key(text, length);
  stream_.mark_token();
  field_ = Field::kOther;
  if (in_event_) {
    if (depth_ == events_depth_ + 1) field_ = field_of_event(key);
    if (in_args_ && depth_ == events_depth_ + 2) field_ = field_of_args(key);
  } else if (depth_ == 1) {
    field_ = field_of_root(key);
  } else if (depth_ == 2 && in_distributed_) {
    if (key == "rank") field_ = Field::kRank;
    if (key == "world_size") field_ = Field::kWorldSize;
  }
  return true;
}

bool EventParser::value(std::string_view text) {
  stream_.mark_token();
  if (depth_ == 0) {
    return fail(make_error(ErrorCode::kUnsupported,
                           "this is JSON, but not a torch.profiler trace: it is a single value"));
  }
  if (depth_ > 1 && root_is_array_ && !seen_events_) return fail_list_of_lists(text);
  if (field_ != Field::kOther) keep(text);
  field_ = Field::kOther;  // members of an array have no key
  return true;
}

void EventParser::keep(std::string_view text) {
  switch (field_) {
    case Field::kPhase:
      event_.phase.assign(text);
      break;
    case Field::kCategory:
      event_.category.assign(text);
      break;
    case Field::kName:
      event_.name.assign(text);
      break;
    case Field::kPid:
      event_.pid.assign(text);
      break;
    case Field::kTid:
      event_.tid.assign(text);
      break;
    case Field::kTime:
      event_.time.assign(text);
      break;
    case Field::kDuration:
      event_.duration.assign(text);
      break;
    case Field::kCallStack:
      event_.call_stack.assign(text);
      break;
    case Field::kDeviceType:
      event_.device_type = whole_number(text);
      break;
    case Field::kDeviceId:
      event_.device_id = whole_number(text);
      break;
    case Field::kBytes:
      event_.bytes = whole_number(text);
      break;
    case Field::kAddress:
      event_.address = bits_of_number(text);
      break;
    case Field::kTotalAllocated:
      event_.total_allocated = whole_number(text);
      break;
    case Field::kTotalReserved:
      event_.total_reserved = whole_number(text);
      break;
    case Field::kSequence:
      event_.sequence = whole_number(text);
      break;
    case Field::kForwardThread:
      event_.forward_thread = whole_number(text);
      break;
    case Field::kHost:
      recorder_.recording().host.assign(text);
      break;
    case Field::kRank:
      recorder_.recording().rank = whole_number(text);
      break;
    case Field::kWorldSize:
      recorder_.recording().world_size = whole_number(text);
      break;
    case Field::kArgs:
    case Field::kDistributed:
    case Field::kTraceEvents:
    case Field::kOther:
      break;
  }
}

bool EventParser::open(Container container) {
  stream_.mark_token();
  if (++depth_ > kDeepest) {
    return fail(make_error(ErrorCode::kLimit, "the JSON is nested more than " +
                                                  std::to_string(kDeepest) + " deep at byte " +
                                                  std::to_string(stream_.Tell())));
  }
  const bool is_array = container == Container::kArray;
  if (depth_ == 1) {
    root_is_array_ = is_array;
    if (is_array) events_depth_ = 1;
  } else if (root_is_array_ && !seen_events_ && (is_array || depth_ > 2)) {
    if (!is_array || depth_ > kDeepestTimeline) return fail_list_of_lists({});
  } else if (depth_ == 2 && is_array && field_ == Field::kTraceEvents) {
    events_depth_ = 2;
  } else if (depth_ == 2 && !is_array && field_ == Field::kDistributed) {
    in_distributed_ = true;
  } else if (events_depth_ != 0 && depth_ == events_depth_ + 1 && !is_array) {
    event_.clear();
    in_event_ = seen_events_ = true;
  } else if (in_event_ && depth_ == events_depth_ + 2 && !is_array && field_ == Field::kArgs) {
    in_args_ = true;
  }
  field_ = Field::kOther;
  return true;
}

bool EventParser::close() {
  stream_.mark_token();
  field_ = Field::kOther;
  if (depth_ > 1 && root_is_array_ && !seen_events_) return fail_list_of_lists({});
  --depth_;
  if (depth_ == 1) in_distributed_ = false;
  if (events_depth_ == 0) return true;
  if (depth_ < events_depth_) {
    events_depth_ = 0;
    seen_events_ = true;
  } else if (in_event_ && depth_ == events_depth_) {
    in_event_ = false;
    if (Status status = recorder_.add(event_); !status) return fail(std::move(status).error());
  } else if (in_args_ && depth_ == events_depth_ + 1) {
    in_args_ = false;
  }
  return true;
}

// `value` is the first in the inner lists; empty if there is none.
bool EventParser::fail_list_of_lists(std::string_view value) {
  const bool is_number =
      !value.empty() && (value[0] == '-' || (value[0] >= '0' && value[0] <= '9'));
  return fail(make_error(ErrorCode::kUnsupported,
                         is_number ? "this is the raw output of torch.profiler's "
                                     "export_memory_timeline: it has totals by category and no "
                                     "allocations; save the same profile with export_chrome_trace "
                                     "and open that"
                                   : "this is JSON, but not a torch.profiler trace: it is a list "
                                     "of lists"));
}

bool EventParser::fail(Error error) {
  failure_ = std::move(error);
  return false;
}

}  // namespace plimsoll::readers::kineto

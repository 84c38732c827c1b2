#include "findings/oom/oom_message_verdict.h"

#include <cstddef>
#include <utility>

#include "base/units.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

using model::OomMessage;

// Memory that PyTorch's tensors do not use is the reason only if it is this share of the device.
constexpr double kMuchOfMessage = 0.10;
// A request of this share of the device is itself a possible reason.
constexpr double kLargeRequestShare = 0.50;
// Figures are rounded, and the limit is compared with a sum of them.
constexpr double kNearLimit = 0.99;
// A difference of three figures with two decimals of GiB is wrong by up to 15.4 MiB.
constexpr std::uint64_t kRoundingBytes = std::uint64_t{16} << 20;

// Would have been enough for the request, and is a large part of the device.
bool is_much(std::optional<std::uint64_t> bytes, const OomMessage& message,
             const MessageFigures& derived) {
  const std::uint64_t whole =
      message.total_bytes.value_or(is_mps(message) ? message.limit_bytes.value_or(0) : 0);
  return bytes && *bytes > 0 && *bytes >= derived.missing_bytes &&
         is_at_least(*bytes, kMuchOfMessage, whole);
}

// The allocator has already returned what it could, so its free pieces are useful only together.
bool is_enough_in_pieces(const OomMessage& message, const MessageFigures& derived) {
  return derived.cached_bytes && *derived.cached_bytes >= message.requested_bytes;
}

// Largest first; of equal ones, the first in the order of this list.
enum class Reason : std::uint8_t { kOthers, kOutside, kUnshared, kCached, kRequest, kUnknown };

Reason largest_reason(const OomMessage& message, const MessageFigures& derived) {
  Reason largest = Reason::kUnknown;
  std::uint64_t most = 0;
  const auto consider = [&](Reason reason, std::uint64_t bytes) {
    if (bytes <= most) return;
    largest = reason;
    most = bytes;
  };
  if (is_much(derived.other_process_bytes, message, derived)) {
    consider(Reason::kOthers, *derived.other_process_bytes);
  }
  if (is_much(derived.outside_bytes, message, derived)) {
    consider(Reason::kOutside, *derived.outside_bytes);
  }
  if (is_much(derived.unshared_bytes, message, derived)) {
    consider(Reason::kUnshared, *derived.unshared_bytes);
  }
  if (is_enough_in_pieces(message, derived)) {
    consider(Reason::kCached, *derived.cached_bytes);
  }
  if (is_at_least(message.requested_bytes, kLargeRequestShare,
                  message.total_bytes.value_or(UINT64_MAX))) {
    consider(Reason::kRequest, message.requested_bytes);
  }
  return largest;
}

bool is_at_limit(const OomMessage& message) {
  if (!message.limit_bytes) return false;
  // The driver may have free memory that is not available to this process.
  if (message.free_bytes.value_or(UINT64_MAX) < message.requested_bytes) return false;
  const auto held = is_mps(message) ? message.process_bytes : message.reserved_bytes;
  return !held || is_at_least(*held + message.requested_bytes, kNearLimit, *message.limit_bytes);
}

// " of the 80.0 GiB"
std::string of_the_device(const OomMessage& message) {
  return message.total_bytes ? " of the " + bytes_text(*message.total_bytes) : std::string();
}

// The processes that have about as much memory as the largest.
std::size_t similar_processes(const OomMessage& message) {
  constexpr double kSimilarShare = 0.8;
  std::uint64_t most = 0;
  for (const base::DeviceProcess& process : message.processes) {
    most = std::max(most, process.used_bytes.value_or(0));
  }
  return static_cast<std::size_t>(
      std::ranges::count_if(message.processes, [&](const base::DeviceProcess& process) {
        return is_at_least(process.used_bytes.value_or(0), kSimilarShare, most);
      }));
}

MessageVerdict request_too_large(const OomMessage& message, bool names_line) {
  MessageVerdict verdict{
      "one tensor of " + bytes_text(message.requested_bytes) + " was requested",
      {{std::string(names_line ? "Make that line request" : "Request") +
        " less at a time: a smaller batch or chunk, or a fused operator that never stores the "
        "whole tensor."}}};
  if (message.total_bytes && message.requested_bytes > *message.total_bytes) {
    verdict.title += ", more than the whole device has (" + bytes_text(*message.total_bytes) + ")";
  } else if (message.limit_bytes && message.requested_bytes > *message.limit_bytes) {
    verdict.title += ", more than this process may hold (" + bytes_text(*message.limit_bytes) + ")";
  }
  return verdict;
}

// Steps for free pieces that are large enough only together.
std::vector<report::FindingStep> join_pieces(const OomMessage& message,
                                             const AcceleratorNames& names) {
  std::string together = names.set_expandable_segments() +
                         " before the process starts: free pieces can then be used together.";
  if (message.is_from_windows) {
    together +=
        " Most versions of PyTorch ignore it on Windows, with a warning: there, try "
        "max_split_size_mb.";
  }
  return {{together + " Whether the rest of the step fits then is unknown."},
          {"If the unused memory is in private pools (CUDA graphs), capture fewer graphs."}};
}

MessageVerdict at_limit(const OomMessage& message, const MessageFigures& derived,
                        const AcceleratorNames& names) {
  const bool in_pieces = is_enough_in_pieces(message, derived);
  MessageVerdict verdict;
  verdict.title = "this process may hold " + bytes_text(*message.limit_bytes);
  if (in_pieces) {
    verdict.title +=
        ", of which " + bytes_text(*derived.cached_bytes) + " were reserved and unused";
  }
  verdict.title += ", and requested " + bytes_text(message.requested_bytes) + " more";
  if (is_mps(message)) {
    verdict.steps = {{"Use less memory."},
                     {"Raise the limit with PYTORCH_MPS_HIGH_WATERMARK_RATIO, at the risk that the "
                      "system runs out of memory."}};
    return verdict;
  }
  if (in_pieces) verdict.steps = join_pieces(message, names);
  verdict.steps.push_back({"Raise the limit that the program sets (" + names.module +
                           ".set_per_process_memory_fraction), or use less memory."});
  return verdict;
}

MessageVerdict refused_while_free(const OomMessage& message, const AcceleratorNames& names) {
  return {bytes_text(message.requested_bytes) + " were requested while " +
              bytes_text(*message.free_bytes) + " were free",
          {{"This is not fragmentation: look for a limit, such as set_per_process_memory_fraction, "
            "ulimit -v, the container, a partition of the device (MIG), or a service that shares "
            "it (CUDA MPS)."},
           {"Compare with " + names.tool +
            ": another process may have used the free memory when the request failed."}}};
}

// The CPU's messages have no number but the request.
MessageVerdict refused_by_system(const OomMessage& message, bool names_line) {
  const char* const compare =
      message.is_from_windows
          ? "Compare it with the committed memory that Task Manager shows: Windows refuses a "
            "request that exceeds what is left of memory and page file."
          : "Compare it with free -h and with ulimit -v: Linux refuses a request that alone "
            "exceeds memory and swap, or a limit.";
  return {"the system refused one tensor of " + bytes_text(message.requested_bytes),
          {{compare},
           {std::string("If one tensor is too large, ") +
            (names_line ? "make that line request" : "request") + " less at a time."}}};
}

MessageVerdict others_use(const OomMessage& message, const MessageFigures& derived,
                          const AcceleratorNames& names) {
  const std::size_t similar = similar_processes(message);
  MessageVerdict verdict;
  if (similar > 1) verdict.title = base::format_count(message.processes.size()) + " ";
  verdict.title +=
      "other processes use " + bytes_text(*derived.other_process_bytes) + of_the_device(message);
  const std::uint64_t bytes = *derived.other_process_bytes;
  if (similar > 1) {
    verdict.steps = {
        step_up_to("Processes of about the same size are often the ranks of one job that all use "
                   "this device: call " +
                       names.module + ".set_device(local_rank), or set " + names.visible_devices +
                       ", before the first CUDA call of each.",
                   bytes),
        step_up_to("If they are not ranks of one job, stop them, or choose another device.",
                   bytes)};
  } else {
    verdict.steps = {step_up_to("Stop them, or choose another device: " + names.tool +
                                    " lists processes and devices, and " + names.visible_devices +
                                    " selects one.",
                                bytes)};
  }
  return verdict;
}

MessageVerdict used_outside(const OomMessage& message, const MessageFigures& derived) {
  return {
      bytes_text(*derived.outside_bytes) + " of this process are outside of PyTorch's allocator",
      {{is_mps(message)
            ? "Metal allocated them for compiled graphs (one for each shape of the inputs) or for "
              "another library, such as MLX: use fewer shapes, or limit the library."
            : "Look for other libraries that allocate on the device (CuPy, NCCL, RAPIDS, "
              "TensorRT), and limit their pools."}}};
}

MessageVerdict used_by_whom(const OomMessage& message, const MessageFigures& derived,
                            const AcceleratorNames& names) {
  return {(derived.is_least_unshared ? "at least " : "") + bytes_text(*derived.unshared_bytes) +
              of_the_device(message) + " were used outside of PyTorch's allocator",
          {{"Stop other processes, or choose another device (" + names.visible_devices +
            "): " + names.tool + " lists the processes of the device."},
           {"If it is this process, look for other libraries that allocate on the device (CuPy, "
            "NCCL, RAPIDS, TensorRT)."}}};
}

MessageVerdict in_pieces(const OomMessage& message, const MessageFigures& derived,
                         const AcceleratorNames& names) {
  return {bytes_text(*derived.cached_bytes) +
              " were reserved and unused, but no piece could serve " +
              bytes_text(message.requested_bytes),
          join_pieces(message, names)};
}

// The message does not state what the driver had free, but PyTorch used little of the device.
bool is_refused_early(const OomMessage& message) {
  return message.total_bytes && !message.free_bytes && message.reserved_bytes &&
         is_at_least(
             minus_or_zero(*message.total_bytes, *message.reserved_bytes + message.requested_bytes),
             kLargeRequestShare, *message.total_bytes);
}

MessageVerdict refused_early(const OomMessage& message, const AcceleratorNames& names) {
  return {"the driver refused " + bytes_text(message.requested_bytes) +
              ", although PyTorch held only " + bytes_text(*message.reserved_bytes) +
              of_the_device(message),
          {{"Compare with " + names.tool +
            ". If other processes use the rest, stop them, or choose another device. If it is "
            "free, the driver limits the process or the size of one allocation."}}};
}

MessageVerdict too_much(const OomMessage& message) {
  MessageVerdict verdict{
      bytes_text(message.requested_bytes) + " were requested",
      {{"If the first step fails, use a smaller batch or activation checkpointing."},
       {"If later steps fail, look for what grows."}}};
  if (message.free_bytes) verdict.title += ", " + bytes_text(*message.free_bytes) + " were free";
  if (message.allocated_bytes) {
    verdict.title += ", and tensors held " + bytes_text(*message.allocated_bytes);
  }
  return verdict;
}

// What PyTorch's allocator reserves at most: what the message states, or else the limit, which the
// allocator enforces.
std::optional<std::uint64_t> most_reserved(const OomMessage& message) {
  if (message.reserved_bytes || is_mps(message)) return message.reserved_bytes;
  const bool is_kept = message.allocated_bytes.value_or(0) <= message.limit_bytes.value_or(0);
  return is_kept ? message.limit_bytes : std::nullopt;
}

}  // namespace

bool is_mps(const OomMessage& message) { return message.device.type == model::DeviceType::kMps; }

std::uint64_t listed_bytes(const OomMessage& message) {
  std::uint64_t listed = 0;
  for (const base::DeviceProcess& process : message.processes) {
    listed += process.used_bytes.value_or(0);
  }
  return listed;
}

MessageFigures figures_of(const OomMessage& message) {
  MessageFigures derived;
  derived.missing_bytes = minus_or_zero(message.requested_bytes, message.free_bytes.value_or(0));
  if (message.reserved_bytes && message.allocated_bytes) {
    derived.cached_bytes = minus_or_zero(*message.reserved_bytes, *message.allocated_bytes);
  }
  if (message.process_bytes && message.reserved_bytes) {
    derived.outside_bytes = minus_or_zero(*message.process_bytes, *message.reserved_bytes);
  }
  const std::uint64_t listed = listed_bytes(message);
  if (listed > 0) derived.other_process_bytes = listed;
  if (!message.total_bytes || !message.free_bytes) return derived;
  const std::uint64_t used = minus_or_zero(*message.total_bytes, *message.free_bytes);
  if (message.process_bytes) {
    const std::uint64_t unlisted = minus_or_zero(used, *message.process_bytes + listed);
    if ((listed == 0 && unlisted >= kRoundingBytes) ||
        is_at_least(unlisted, kMuchOfMessage, *message.total_bytes)) {
      derived.unlisted_bytes = unlisted;
      derived.other_process_bytes = listed + unlisted;
    }
  } else if (const auto reserved = most_reserved(message)) {
    derived.unshared_bytes = minus_or_zero(used, *reserved + listed);
    derived.is_least_unshared = !message.reserved_bytes;
  }
  return derived;
}

MessageVerdict verdict_of(const OomMessage& message, const MessageFigures& derived, bool names_line,
                          const AcceleratorNames& names) {
  const std::uint64_t most =
      std::min(message.total_bytes.value_or(UINT64_MAX), message.limit_bytes.value_or(UINT64_MAX));
  if (message.requested_bytes > most) return request_too_large(message, names_line);
  if (message.device.type == model::DeviceType::kCpu) return refused_by_system(message, names_line);
  const Reason reason = largest_reason(message, derived);
  if (is_at_limit(message)) {
    return is_mps(message) && reason == Reason::kOutside ? used_outside(message, derived)
                                                         : at_limit(message, derived, names);
  }
  if (message.free_bytes && derived.missing_bytes == 0) return refused_while_free(message, names);
  switch (reason) {
    case Reason::kOthers:
      return others_use(message, derived, names);
    case Reason::kOutside:
      return used_outside(message, derived);
    case Reason::kUnshared:
      return used_by_whom(message, derived, names);
    case Reason::kCached:
      return in_pieces(message, derived, names);
    case Reason::kRequest:
      return request_too_large(message, names_line);
    case Reason::kUnknown:
      break;
  }
  return is_refused_early(message) ? refused_early(message, names) : too_much(message);
}

}  // namespace plimsoll::findings

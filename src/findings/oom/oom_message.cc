// Explains a printed out-of-memory message: what each of its numbers means, and why the request
// failed, as far as they allow a verdict. Without a recording, it is unknown what fills the memory.
#include "findings/oom/oom_message.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/units.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

using base::DeviceProcess;
using model::DeviceType;
using Bytes = std::optional<std::uint64_t>;
using Texts = std::vector<std::string>;

// A request of this share of the device is itself a possible reason.
constexpr double kLargeRequestShare = 0.50;
// Figures are rounded, and the limit is compared with a sum of them.
constexpr double kNearLimit = 0.99;
// A difference of three figures with two decimals of GiB is wrong by up to 15.4 MiB.
constexpr std::uint64_t kRoundingBytes = std::uint64_t{16} << 20;

constexpr const char* kOtherLibraries =
    "look for other libraries that allocate on the device (CuPy, NCCL, RAPIDS, TensorRT), and "
    "limit their pools.";

// The message, and the memory that may be the reason, as far as its numbers show it.
struct Message : model::OomMessage {
  std::string line;
  AcceleratorNames names;
  Texts notes = {};                 // what was corrected
  std::uint64_t missing_bytes = 0;  // the request, less what the driver had
  Bytes cached_bytes = {};          // reserved and unused
  Bytes outside_bytes = {};         // of this process, outside of the allocator
  Bytes other_process_bytes = {};
  std::uint64_t unlisted_bytes = 0;  // part of the others that the message does not list
  Bytes unshared_bytes = {};         // outside of the allocator, of this process or others

  // MPS always has a limit, whether the program sets one or not. It covers all memory of the
  // process; other limits cover only what PyTorch reserves.
  bool is_mps() const { return device.type == DeviceType::kMps; }
  bool is_cpu() const { return device.type == DeviceType::kCpu; }
  std::uint64_t used_bytes() const { return minus_or_zero(*total_bytes, free_bytes.value_or(0)); }
  // " of the 80.0 GiB"
  std::string of_the_device() const {
    return total_bytes ? " of the " + bytes_text(*total_bytes) : std::string();
  }
};

std::uint64_t used_by(const std::vector<DeviceProcess>& processes) {
  std::uint64_t sum = 0;
  for (const DeviceProcess& process : processes) sum += process.used_bytes.value_or(0);
  return sum;
}

// In a container, PyTorch does not find its own process ID in the driver's list, and prints its own
// process as another. If the listed processes and PyTorch's memory together exceed what is used,
// the process is in the list: as the one whose memory is closest to what PyTorch has reserved.
void find_own_process(Message& message) {
  if (message.process_bytes || !message.reserved_bytes || !message.total_bytes) return;
  if (used_by(message.processes) + *message.reserved_bytes <= message.used_bytes()) return;
  const auto excess = [&](const DeviceProcess& process) {
    const std::uint64_t bytes = process.used_bytes.value_or(0);
    const bool may_be = bytes <= *message.total_bytes && bytes >= *message.reserved_bytes;
    return may_be ? bytes - *message.reserved_bytes : UINT64_MAX;
  };
  const auto own = std::ranges::min_element(message.processes, {}, excess);
  if (own == message.processes.end() || excess(*own) == UINT64_MAX) return;
  message.process_bytes = own->used_bytes;
  message.notes.push_back("Process " + std::to_string(own->pid) +
                          " of the message is this one: in a container, PyTorch does not recognize "
                          "its own process ID.");
  message.processes.erase(own);
}

// Removes what cannot be true: a process that uses more than the device has. Drivers report such
// figures under WSL and in containers.
void remove_impossible(Message& message) {
  const auto is_impossible = [&](Bytes bytes, const std::string& owner) {
    if (bytes.value_or(0) <= message.total_bytes.value_or(UINT64_MAX)) return false;
    message.notes.push_back("Left out: the memory of " + owner +
                            ", which the message gives as more than the device has.");
    return true;
  };
  if (is_impossible(message.process_bytes, "this process")) message.process_bytes.reset();
  std::erase_if(message.processes, [&](const DeviceProcess& process) {
    return is_impossible(process.used_bytes, "process " + std::to_string(process.pid));
  });
}

void derive_figures(Message& message) {
  const std::uint64_t listed = used_by(message.processes);
  message.missing_bytes = minus_or_zero(message.requested_bytes, message.free_bytes.value_or(0));
  if (message.reserved_bytes && message.allocated_bytes) {
    message.cached_bytes = minus_or_zero(*message.reserved_bytes, *message.allocated_bytes);
  }
  if (message.process_bytes && message.reserved_bytes) {
    message.outside_bytes = minus_or_zero(*message.process_bytes, *message.reserved_bytes);
  }
  if (listed > 0) message.other_process_bytes = listed;
  if (!message.total_bytes || !message.free_bytes) return;
  const std::uint64_t used = message.used_bytes();
  if (message.process_bytes) {
    const std::uint64_t unlisted = minus_or_zero(used, *message.process_bytes + listed);
    if ((listed == 0 && unlisted >= kRoundingBytes) ||
        is_at_least(unlisted, kMuchOfDevice, *message.total_bytes)) {
      message.unlisted_bytes = unlisted;
      message.other_process_bytes = listed + unlisted;
    }
  } else if (message.reserved_bytes) {
    message.unshared_bytes = minus_or_zero(used, *message.reserved_bytes + listed);
  }
}

// Why a request failed.
struct Verdict {
  std::string title;
  std::vector<report::FindingStep> steps = {};
};
using Explain = Verdict (*)(const Message&);

Verdict request_too_large(const Message& message) {
  std::string title = "one tensor of " + bytes_text(message.requested_bytes) + " was requested";
  if (message.requested_bytes > message.total_bytes.value_or(UINT64_MAX)) {
    title += ", more than the whole device has (" + bytes_text(*message.total_bytes) + ")";
  } else if (message.requested_bytes > message.limit_bytes.value_or(UINT64_MAX)) {
    title += ", more than this process may hold (" + bytes_text(*message.limit_bytes) + ")";
  }
  return {title,
          {{std::string(message.line.empty() ? "Request" : "Make that line request") +
            " less at a time: a smaller batch or chunk, or a fused operator that never stores the "
            "whole tensor."}}};
}

Verdict refused_by_system(const Message& message) {
  Verdict verdict = request_too_large(message);
  verdict.title = "the system refused one tensor of " + bytes_text(message.requested_bytes);
  verdict.steps.push_back(
      {"Compare it with the memory and swap (on Windows: the page file) that are free, and with "
       "limits such as ulimit -v."});
  return verdict;
}

Verdict others_use(const Message& message) {
  const std::uint64_t bytes = *message.other_process_bytes;
  const std::size_t count = message.processes.size();
  Verdict verdict{(count > 1 ? base::format_count(count) + " " : "") + "other processes use " +
                  bytes_text(bytes) + message.of_the_device()};
  if (count > 1) {
    verdict.steps.push_back(
        step_up_to("If they are the ranks of one job that all use this device, call " +
                       message.names.module + ".set_device(local_rank), or set " +
                       message.names.visible_devices + ", before the first CUDA call of each.",
                   bytes));
  }
  verdict.steps.push_back(step_up_to(
      "Stop the other processes, or choose another device (" + message.names.visible_devices +
          "): " + message.names.tool + " lists the processes of the device.",
      bytes));
  return verdict;
}

Verdict used_outside(const Message& message) {
  return {
      bytes_text(*message.outside_bytes) + " of this process are outside of PyTorch's allocator",
      {{message.is_mps()
            ? "Metal allocated them for compiled graphs (one for each shape of the inputs) or "
              "for another library, such as MLX: use fewer shapes, or limit the library."
            : "In this process, " + std::string(kOtherLibraries)}}};
}

Verdict used_by_whom(const Message& message) {
  return {bytes_text(*message.unshared_bytes) + message.of_the_device() +
              " were used outside of PyTorch's allocator",
          {{"Stop other processes, or choose another device (" + message.names.visible_devices +
            "): " + message.names.tool + " lists the processes of the device."},
           {"If it is this process, " + std::string(kOtherLibraries)}}};
}

// The allocator has already returned what it could, so its free pieces are useful only together.
bool is_enough_in_pieces(const Message& message) {
  return message.cached_bytes && *message.cached_bytes >= message.requested_bytes;
}

Verdict in_pieces(const Message& message) {
  return {bytes_text(*message.cached_bytes) +
              " were reserved and unused, but no piece could serve " +
              bytes_text(message.requested_bytes),
          {{message.names.set_expandable_segments() + " before the process starts" +
            (message.is_from_windows ? " (on Windows, most versions ignore it: try "
                                       "max_split_size_mb there)"
                                     : "") +
            ": free pieces can then be used together. Whether the rest of the step fits then is "
            "unknown."},
           {"If the unused memory is in private pools (CUDA graphs), capture fewer graphs."}}};
}

bool is_at_limit(const Message& message) {
  if (!message.limit_bytes) return false;
  // The driver may have free memory that is not available to this process.
  if (message.free_bytes.value_or(UINT64_MAX) < message.requested_bytes) return false;
  const Bytes held = message.is_mps() ? message.process_bytes : message.reserved_bytes;
  return !held || is_at_least(*held + message.requested_bytes, kNearLimit, *message.limit_bytes);
}

Verdict at_limit(const Message& message) {
  Verdict verdict;
  std::string unused;
  if (message.is_mps()) {
    verdict.steps.push_back({"Use less memory."});
  } else if (is_enough_in_pieces(message)) {
    verdict = in_pieces(message);
    unused = ", of which " + bytes_text(*message.cached_bytes) + " were reserved and unused";
  }
  verdict.title = "this process may hold " + bytes_text(*message.limit_bytes) + unused +
                  ", and requested " + bytes_text(message.requested_bytes) + " more";
  verdict.steps.push_back(
      {message.is_mps() ? "Raise the limit with PYTORCH_MPS_HIGH_WATERMARK_RATIO, at the risk that "
                          "the system runs out of memory."
                        : "Raise the limit that the program sets (" + message.names.module +
                              ".set_per_process_memory_fraction), or use less memory."});
  return verdict;
}

// Whether PyTorch used little of a device whose free memory the message does not state.
bool is_refused_early(const Message& message) {
  return message.total_bytes && !message.free_bytes && message.reserved_bytes &&
         is_at_least(
             minus_or_zero(*message.total_bytes, *message.reserved_bytes + message.requested_bytes),
             kLargeRequestShare, *message.total_bytes);
}

Verdict refused(const Message& message) {
  const std::string requested = bytes_text(message.requested_bytes);
  return {message.free_bytes ? requested + " were requested while " +
                                   bytes_text(*message.free_bytes) + " were free"
                             : "the driver refused " + requested + ", although PyTorch held only " +
                                   bytes_text(*message.reserved_bytes) + message.of_the_device(),
          {{"This is not fragmentation: look for a limit, such as set_per_process_memory_fraction, "
            "ulimit -v, the container, a partition of the device (MIG), or a service that shares "
            "it (CUDA MPS)."},
           {"Compare with " + message.names.tool + ": other processes may use the rest."}}};
}

Verdict too_much(const Message& message) {
  Verdict verdict{bytes_text(message.requested_bytes) + " were requested",
                  {{"If the first step fails, use a smaller batch or activation checkpointing."},
                   {"If later steps fail, look for what grows."}}};
  if (message.free_bytes) verdict.title += ", " + bytes_text(*message.free_bytes) + " were free";
  if (message.allocated_bytes) {
    verdict.title += ", and tensors held " + bytes_text(*message.allocated_bytes);
  }
  return verdict;
}

// Explains the largest of the possible reasons; of equal ones, the first. Null if there is none.
Explain largest_reason(const Message& message) {
  const std::uint64_t whole =
      message.total_bytes.value_or(message.is_mps() ? message.limit_bytes.value_or(0) : 0);
  // Would have been enough for the request, and is a large part of the device.
  const auto much = [&](Bytes bytes) {
    const bool is_much = bytes.value_or(0) >= message.missing_bytes &&
                         is_at_least(bytes.value_or(0), kMuchOfDevice, whole);
    return is_much ? bytes.value_or(0) : 0;
  };
  const bool is_large = is_at_least(message.requested_bytes, kLargeRequestShare,
                                    message.total_bytes.value_or(UINT64_MAX));
  const std::array reasons{
      std::pair{much(message.other_process_bytes), Explain{others_use}},
      std::pair{much(message.outside_bytes), Explain{used_outside}},
      std::pair{much(message.unshared_bytes), Explain{used_by_whom}},
      std::pair{is_enough_in_pieces(message) ? *message.cached_bytes : 0, Explain{in_pieces}},
      std::pair{is_large ? message.requested_bytes : 0, Explain{request_too_large}}};
  const auto& [bytes, explain] =
      *std::ranges::max_element(reasons, {}, [](const auto& reason) { return reason.first; });
  return bytes > 0 ? explain : nullptr;
}

// Whether tensors use more than the device has. The driver of Windows (also under WSL) moves device
// memory to the host's when it runs out; PyTorch counts it as allocated all the same.
bool is_spilled(const Message& message) {
  return message.total_bytes && message.device.type == DeviceType::kCuda &&
         message.allocated_bytes.value_or(0) > *message.total_bytes;
}

Verdict spilled(const Message& message) {
  return {
      bytes_text(*message.allocated_bytes) + " in tensors on a device of " +
          bytes_text(*message.total_bytes) + ": the driver spilled " +
          bytes_text(*message.allocated_bytes - *message.total_bytes) +
          " or more to the host's memory",
      {{"Use less memory: a smaller batch, fewer or smaller models, or lower precision. What is "
        "spilled is read over PCIe, which is many times slower than the device."},
       {"To get an error instead of slow steps, set CUDA - Sysmem Fallback Policy to Prefer No "
        "Sysmem Fallback in the NVIDIA Control Panel."}}};
}

Verdict verdict_of(const Message& message) {
  if (is_spilled(message)) return spilled(message);
  const std::uint64_t most =
      std::min(message.total_bytes.value_or(UINT64_MAX), message.limit_bytes.value_or(UINT64_MAX));
  if (message.requested_bytes > most) return request_too_large(message);
  if (message.is_cpu()) return refused_by_system(message);
  const Explain reason = largest_reason(message);
  if (is_at_limit(message)) {
    const bool is_outside = message.is_mps() && reason == used_outside;
    return is_outside ? used_outside(message) : at_limit(message);
  }
  if (message.free_bytes && message.missing_bytes == 0) return refused(message);
  if (reason != nullptr) return reason(message);
  return is_refused_early(message) ? refused(message) : too_much(message);
}

std::string others_text(const Message& message) {
  if (message.processes.empty()) {
    return bytes_text(message.unlisted_bytes) + " are used by other processes, or by the driver.";
  }
  std::string text;
  for (const DeviceProcess& process : message.processes) {
    text += (text.empty() ? "Process " : ", process ") + std::to_string(process.pid) + " has " +
            bytes_text(process.used_bytes.value_or(0));
  }
  if (message.unlisted_bytes > 0) {
    text += ", and processes that are not listed have " + bytes_text(message.unlisted_bytes);
  }
  return text + ".";
}

std::string tensors_text(const Message& message) {
  if (!message.allocated_bytes) return bytes_text(*message.reserved_bytes) + " reserved.";
  std::string text = bytes_text(*message.allocated_bytes) + " in tensors";
  if (message.private_pool_bytes) {
    text += " (" + bytes_text(*message.private_pool_bytes) +
            " of it in private pools, as CUDA graphs use them)";
  }
  if (message.cached_bytes) {
    text += ", and " + bytes_text(*message.cached_bytes) + " reserved but unused";
  }
  if (message.cached_bytes.value_or(0) > 0) {
    text += ": cached for later requests, or in pieces too small for this one";
  }
  return text + ".";
}

// Adds how to see what fills the memory, as far as Plimsoll and PyTorch support the platform.
void add_recording(const Message& message, report::Finding& finding) {
  const bool is_windows = message.is_from_windows;
  const bool is_cuda = message.device.type == DeviceType::kCuda;
  std::string unknown = "The message does not say what fills the memory";
  if (message.is_mps() || (message.is_cpu() && is_windows)) {
    unknown +=
        std::string(", and Plimsoll does not record ") + (message.is_mps() ? "MPS" : "on Windows");
  } else if (message.is_cpu() || (is_cuda && !is_windows)) {
    finding.steps.push_back({"Record what fills the memory: plimsoll run SCRIPT."});
  } else {
    finding.steps.push_back({"Take a snapshot of PyTorch, which plimsoll report explains: call " +
                             message.names.module +
                             ".memory._record_memory_history() before the model is created, "
                             "and " +
                             message.names.module +
                             ".memory._dump_snapshot(PATH) when the error is raised."});
  }
  finding.evidence.push_back(unknown + ".");
}

std::string count_text(std::uint64_t count) {
  return "The text has " + counted(count, "message") + " about this device; this is the last.";
}

// A text of another program: what it means is known with the text.
report::Finding explain_known(const model::OomMessage& message, const std::string& line,
                              std::uint64_t count) {
  const model::KnownText& known = *message.known;
  report::Finding finding{
      "out_of_memory", report::FindingSeverity::kCritical, known.title, {known.evidence}, {}};
  if (!known.quotation.empty()) {
    finding.evidence.push_back("The log: \"" + known.quotation + "\"");
  }
  if (!line.empty()) finding.evidence.push_back("The last line before it: " + line + ".");
  if (count > 1) finding.evidence.push_back(count_text(count));
  for (const std::string& step : known.steps) finding.steps.push_back({step});
  return finding;
}

}  // namespace

report::Finding explain_message(model::OomMessage stated, const std::string& line,
                                std::uint64_t count, const AcceleratorNames& names) {
  if (stated.known) return explain_known(stated, line, count);
  Message message{std::move(stated), line, names};
  find_own_process(message);
  remove_impossible(message);
  derive_figures(message);
  Verdict verdict = verdict_of(message);
  report::Finding finding{"out_of_memory",
                          report::FindingSeverity::kCritical,
                          model::to_string(message.device) + " ran out of memory: " + verdict.title,
                          {},
                          std::move(verdict.steps)};
  const auto say = [&](std::string sentence) { finding.evidence.push_back(std::move(sentence)); };
  say("Failed request: " + bytes_text(message.requested_bytes) +
      (line.empty() ? ", the size of one tensor after rounding." : ", by " + line + "."));
  if (message.total_bytes) {
    say("Device: " + bytes_text(*message.total_bytes) + " in all" +
        (message.free_bytes
             ? ", of which the driver had " + bytes_text(*message.free_bytes) + " free."
             : "."));
  }
  if (message.allocated_bytes || message.reserved_bytes) say("PyTorch: " + tensors_text(message));
  if (message.outside_bytes) {
    say("This process outside of PyTorch's allocator: " + bytes_text(*message.outside_bytes) +
        " (context, libraries). It used " + bytes_text(*message.process_bytes) + " in all.");
  }
  if (message.other_process_bytes.value_or(0) > 0) say("Others: " + others_text(message));
  if (message.limit_bytes) {
    say("Limit of this process: " + bytes_text(*message.limit_bytes) +
        (message.is_mps() ? " (PYTORCH_MPS_HIGH_WATERMARK_RATIO)."
                          : ", which the program has set."));
  }
  if (is_spilled(message)) {
    say("A driver on Linux refuses such memory; that of Windows, also under WSL, moves some of it "
        "to the host.");
  }
  for (std::string& note : message.notes) say(std::move(note));
  if (count > 1) say(count_text(count));
  add_recording(message, finding);
  return finding;
}

}  // namespace plimsoll::findings

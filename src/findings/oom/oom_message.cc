// Explains a printed out-of-memory message: what each of its numbers means, and what would have
// helped. Without a recording, it is unknown what fills the memory.
#include "findings/oom/oom_message.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "findings/oom/oom_message_verdict.h"
#include "findings/text.h"

namespace plimsoll::findings {
namespace {

using model::OomMessage;

// Removes what cannot be true: a process that uses more than the device has. Drivers report such
// figures under WSL and in containers. Returns a sentence for each.
std::vector<std::string> remove_impossible(OomMessage& message) {
  std::vector<std::string> notes;
  if (!message.total_bytes) return notes;
  const auto is_impossible = [&](std::optional<std::uint64_t> bytes) {
    return bytes.value_or(0) > *message.total_bytes;
  };
  const auto note = [&](const std::string& owner) {
    notes.push_back("Left out: the memory of " + owner +
                    ", which the message gives as more than the device has.");
  };
  if (is_impossible(message.process_bytes)) {
    message.process_bytes.reset();
    note("this process");
  }
  std::erase_if(message.processes, [&](const base::DeviceProcess& process) {
    if (!is_impossible(process.used_bytes)) return false;
    note("process " + std::to_string(process.pid));
    return true;
  });
  return notes;
}

// In a container, PyTorch does not find its own process ID in the driver's list, and prints its own
// process as another. If the listed processes and PyTorch's memory together exceed what is used,
// the process is in the list: as the one whose memory is closest to what PyTorch has reserved.
std::vector<std::string> find_own_process(OomMessage& message) {
  if (!message.reserved_bytes || !message.total_bytes) return {};
  const std::uint64_t used = minus_or_zero(*message.total_bytes, message.free_bytes.value_or(0));
  if (listed_bytes(message) + *message.reserved_bytes <= used) return {};
  const auto excess = [&](const base::DeviceProcess& process) {
    const std::uint64_t bytes = process.used_bytes.value_or(0);
    if (bytes > *message.total_bytes) return UINT64_MAX;
    return bytes >= *message.reserved_bytes ? bytes - *message.reserved_bytes : UINT64_MAX;
  };
  const auto own = std::ranges::min_element(message.processes, {}, excess);
  if (own == message.processes.end() || excess(*own) == UINT64_MAX) return {};
  message.process_bytes = own->used_bytes;
  std::string note = "Process " + std::to_string(own->pid) +
                     " of the message is this one: in a container, PyTorch does not recognize its "
                     "own process ID.";
  message.processes.erase(own);
  return {std::move(note)};
}

std::string others_text(const OomMessage& message, const MessageFigures& derived) {
  if (message.processes.empty()) {
    return bytes_text(derived.unlisted_bytes) + " are used by other processes, or by the driver.";
  }
  std::string text;
  for (const base::DeviceProcess& process : message.processes) {
    text += (text.empty() ? "Process " : ", process ") + std::to_string(process.pid) + " has " +
            bytes_text(process.used_bytes.value_or(0));
  }
  if (derived.unlisted_bytes > 0) {
    text += ", and processes that are not listed have " + bytes_text(derived.unlisted_bytes);
  }
  return text + ".";
}

// Adds how to see what fills the memory, as far as Plimsoll and PyTorch support the platform.
void add_recording(const OomMessage& message, const AcceleratorNames& names,
                   report::Finding& finding) {
  const std::string unknown = "The message does not say what fills the memory";
  const bool is_cpu = message.device.type == model::DeviceType::kCpu;
  const bool is_cuda = message.device.type == model::DeviceType::kCuda;
  if (is_mps(message)) {
    finding.evidence.push_back(unknown + ", and Plimsoll does not record MPS.");
  } else if (is_cpu && message.is_from_windows) {
    finding.evidence.push_back(unknown + ", and Plimsoll does not record on Windows.");
  } else if (is_cpu || (is_cuda && !message.is_from_windows)) {
    finding.evidence.push_back(unknown + ".");
    finding.steps.push_back({"Record what fills the memory: plimsoll run SCRIPT."});
  } else {
    finding.evidence.push_back(unknown + ".");
    finding.steps.push_back(
        {"Take a snapshot of PyTorch, which plimsoll report explains: call " + names.module +
         ".memory._record_memory_history() before the model is created, and " + names.module +
         ".memory._dump_snapshot(PATH) when the error is raised."});
  }
}

}  // namespace

report::Finding explain_message(OomMessage message, const std::string& line, std::uint64_t count,
                                const AcceleratorNames& names) {
  std::vector<std::string> notes =
      message.process_bytes ? std::vector<std::string>() : find_own_process(message);
  std::ranges::move(remove_impossible(message), std::back_inserter(notes));
  const MessageFigures derived = figures_of(message);
  MessageVerdict verdict = verdict_of(message, derived, !line.empty(), names);
  report::Finding finding;
  finding.id = "out_of_memory";
  finding.severity = report::FindingSeverity::kCritical;
  finding.title = model::to_string(message.device) + " ran out of memory: " + verdict.title;
  finding.steps = std::move(verdict.steps);
  const auto say = [&](std::string sentence) { finding.evidence.push_back(std::move(sentence)); };
  say("Failed request: " + bytes_text(message.requested_bytes) +
      (line.empty() ? ", the size of one tensor after rounding." : ", by " + line + "."));
  if (message.total_bytes) {
    std::string sentence = "Device: " + bytes_text(*message.total_bytes) + " in all";
    if (message.free_bytes) {
      sentence += ", of which the driver had " + bytes_text(*message.free_bytes) + " free";
    }
    say(sentence + ".");
  }
  if (message.reserved_bytes && !message.allocated_bytes) {
    say("PyTorch: " + bytes_text(*message.reserved_bytes) + " reserved.");
  }
  if (message.allocated_bytes) {
    std::string sentence = "PyTorch: " + bytes_text(*message.allocated_bytes) + " in tensors";
    if (message.private_pool_bytes) {
      sentence += " (" + bytes_text(*message.private_pool_bytes) +
                  " of it in private pools, as CUDA graphs use them)";
    }
    if (derived.cached_bytes) {
      sentence += ", and " + bytes_text(*derived.cached_bytes) + " reserved but unused";
      if (*derived.cached_bytes > 0) {
        sentence += ": cached for later requests, or in pieces too small for this one";
      }
    }
    say(sentence + ".");
  }
  if (derived.outside_bytes) {
    say("This process outside of PyTorch's allocator: " + bytes_text(*derived.outside_bytes) +
        " (context, libraries). It used " + bytes_text(*message.process_bytes) + " in all.");
  }
  if (derived.other_process_bytes && *derived.other_process_bytes > 0) {
    say("Others: " + others_text(message, derived));
  }
  if (message.limit_bytes) {
    say("Limit of this process: " + bytes_text(*message.limit_bytes) +
        (is_mps(message) ? " (PYTORCH_MPS_HIGH_WATERMARK_RATIO)."
                         : ", which the program has set."));
    if (derived.is_least_unshared && derived.unshared_bytes.value_or(0) > 0) {
      finding.evidence.back() += " It bounds what PyTorch reserves, so at least " +
                                 bytes_text(*derived.unshared_bytes + listed_bytes(message)) +
                                 " are used outside of PyTorch's allocator.";
    }
  }
  for (std::string& note : notes) say(std::move(note));
  if (count > 1) {
    say("The text has " + counted(count, "message") + " about this device; this is the last.");
  }
  add_recording(message, names, finding);
  return finding;
}

}  // namespace plimsoll::findings

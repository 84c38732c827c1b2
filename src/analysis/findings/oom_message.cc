// Explains a printed out-of-memory message: what each of its numbers means, and what would have
// helped. Without a recording, it is unknown what fills the memory.
#include "analysis/findings/oom_message.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "analysis/findings/text.h"

namespace plimsoll::analysis::findings {
namespace {

using model::OomMessage;

// Other users of the device matter only if they have at least this share of it.
constexpr double kMuchOfDevice = 0.10;
constexpr double kLargeShare = 0.50;

// Figures derived from the numbers of the message; nullopt if it lacks one of them.
struct Derived {
  std::optional<std::uint64_t> cached_bytes;         // reserved and unused
  std::optional<std::uint64_t> outside_bytes;        // of this process, outside of the allocator
  std::optional<std::uint64_t> other_process_bytes;  // listed, or what is left
};

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

Derived derive(const OomMessage& message) {
  Derived derived;
  if (message.reserved_bytes && message.allocated_bytes) {
    derived.cached_bytes = minus(*message.reserved_bytes, *message.allocated_bytes);
  }
  if (message.process_bytes && message.reserved_bytes) {
    derived.outside_bytes = minus(*message.process_bytes, *message.reserved_bytes);
  }
  std::uint64_t listed = 0;
  for (const base::DeviceProcess& process : message.processes) {
    listed += process.used_bytes.value_or(0);
  }
  if (listed > 0) {
    derived.other_process_bytes = listed;
  } else if (message.total_bytes && message.free_bytes && message.process_bytes) {
    derived.other_process_bytes =
        minus(*message.total_bytes, *message.free_bytes + *message.process_bytes);
  }
  return derived;
}

bool is_much(std::optional<std::uint64_t> bytes, const OomMessage& message) {
  return bytes && *bytes >= message.requested_bytes &&
         is_at_least(*bytes, kMuchOfDevice, message.total_bytes.value_or(0));
}

// MPS always has a limit, whether the program sets one or not.
bool is_mps(const OomMessage& message) { return message.device.type == model::DeviceType::kMps; }

// The driver may have free memory that is not available to this process.
bool is_at_limit(const OomMessage& message) {
  return message.limit_bytes && message.free_bytes.value_or(UINT64_MAX) >= message.requested_bytes;
}

void set_verdict(const OomMessage& message, const Derived& derived, const std::string& device,
                 report::Finding& finding) {
  const std::string requested = bytes_text(message.requested_bytes);
  finding.title = device + " ran out of memory: ";
  if (is_at_limit(message)) {
    finding.title += "this process may hold " + bytes_text(*message.limit_bytes) +
                     ", and requested " + requested + " more";
    finding.next_step =
        is_mps(message)
            ? "Use less memory. PYTORCH_MPS_HIGH_WATERMARK_RATIO raises the limit, at the risk "
              "that the system runs out of memory."
            : "Raise the limit that the program sets (torch.cuda.set_per_process_memory_fraction), "
              "or use less memory.";
  } else if (derived.cached_bytes && *derived.cached_bytes >= message.requested_bytes) {
    finding.title += bytes_text(*derived.cached_bytes) +
                     " were reserved and unused, but no piece could serve " + requested;
    finding.next_step =
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the process starts: free "
        "pieces can then be used together. If the unused memory is in private pools (CUDA graphs), "
        "capture fewer graphs. Whether the rest of the step fits then is unknown.";
  } else if (is_much(derived.other_process_bytes, message)) {
    finding.title += "other processes use " + bytes_text(*derived.other_process_bytes) +
                     " of the " + bytes_text(*message.total_bytes);
    finding.next_step =
        "Stop them, or choose another device: nvidia-smi lists processes and devices, and "
        "CUDA_VISIBLE_DEVICES selects one.";
    finding.saving_bytes = *derived.other_process_bytes;
  } else if (is_much(derived.outside_bytes, message)) {
    finding.title +=
        bytes_text(*derived.outside_bytes) + " of this process are outside of PyTorch's allocator";
    finding.next_step =
        "Look for other libraries that allocate on the device (CuPy, NCCL, RAPIDS, TensorRT), and "
        "limit their pools.";
  } else if (message.free_bytes && *message.free_bytes >= message.requested_bytes) {
    finding.title +=
        requested + " were requested while " + bytes_text(*message.free_bytes) + " were free";
    finding.next_step =
        "Another process may have used the memory at that time, and a container or a partition of "
        "the device may have a limit: compare with nvidia-smi.";
  } else if (is_at_least(message.requested_bytes, kLargeShare,
                         message.total_bytes.value_or(UINT64_MAX))) {
    finding.title += "one tensor of " + requested + " was requested";
    finding.next_step =
        "Make that line request less at a time: a smaller batch or chunk, or a fused operator that "
        "never stores the whole tensor.";
  } else {
    finding.title += requested + " were requested";
    if (message.free_bytes) finding.title += ", " + bytes_text(*message.free_bytes) + " were free";
    if (message.allocated_bytes) {
      finding.title += ", and tensors held " + bytes_text(*message.allocated_bytes);
    }
    finding.next_step =
        "If the first step fails, use a smaller batch or activation checkpointing. If later steps "
        "fail, something grows.";
  }
  finding.next_step +=
      " The message does not say what fills the memory: plimsoll run SCRIPT records it.";
}

std::string others_text(const OomMessage& message, std::uint64_t bytes) {
  if (message.processes.empty()) {
    return bytes_text(bytes) + " are used by other processes, or by the driver.";
  }
  std::string text;
  for (const base::DeviceProcess& process : message.processes) {
    text += (text.empty() ? "Process " : ", process ") + std::to_string(process.pid) + " has " +
            bytes_text(process.used_bytes.value_or(0));
  }
  return text + ".";
}

}  // namespace

report::Finding explain_message(const OomMessage& message, const std::string& line,
                                std::uint64_t count) {
  report::Finding finding;
  finding.id = "out_of_memory";
  finding.severity = report::FindingSeverity::kCritical;
  const Derived derived = derive(message);
  set_verdict(message, derived, model::to_string(message.device), finding);
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
  if (message.allocated_bytes) {
    std::string sentence = "PyTorch: " + bytes_text(*message.allocated_bytes) + " in tensors";
    if (message.private_pool_bytes) {
      sentence += " (" + bytes_text(*message.private_pool_bytes) +
                  " of it in private pools, as CUDA graphs use them)";
    }
    if (derived.cached_bytes) {
      sentence += ", and " + bytes_text(*derived.cached_bytes) +
                  " reserved but unused: cached for later requests, or in pieces too small for "
                  "this one";
    }
    say(sentence + ".");
  }
  if (derived.outside_bytes) {
    say("This process outside of PyTorch's allocator: " + bytes_text(*derived.outside_bytes) +
        " (CUDA context, libraries). It used " + bytes_text(*message.process_bytes) + " in all.");
  }
  if (derived.other_process_bytes && *derived.other_process_bytes > 0) {
    say("Others: " + others_text(message, *derived.other_process_bytes));
  }
  if (message.limit_bytes) {
    say("Limit of this process: " + bytes_text(*message.limit_bytes) +
        (is_mps(message) ? " (PYTORCH_MPS_HIGH_WATERMARK_RATIO)."
                         : ", which the program has set."));
  }
  if (count > 1) {
    say("The text has " + counted(count, "message") + " about this device; this is the last.");
  }
  return finding;
}

}  // namespace plimsoll::analysis::findings

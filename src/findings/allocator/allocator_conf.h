// The allocator settings in the file: the parsed values, and the raw string of the environment
// variable for settings that have no parsed value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/trace.h"

namespace plimsoll::findings {

struct AllocatorConf {
  bool expandable_segments = false;
  bool asked_for_expandable_segments = false;         // in the raw string
  std::optional<std::uint64_t> max_split_size_bytes;  // nullopt: unlimited
  double garbage_collection_threshold = 0;            // 0: off
  std::string raw;
  std::string variable;  // that this program reads, such as PYTORCH_CUDA_ALLOC_CONF
};

AllocatorConf allocator_conf(const model::Trace& trace);

// How findings name the tools of the recording's accelerator; by default those of CUDA.
struct AcceleratorNames {
  std::string module = "torch.cuda";
  std::string tool = "nvidia-smi";                       // lists processes and devices
  std::string visible_devices = "CUDA_VISIBLE_DEVICES";  // the variable that selects devices
  std::string alloc_conf = "PYTORCH_CUDA_ALLOC_CONF";    // AllocatorConf::variable

  // "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
  std::string set_expandable_segments() const;
};

AcceleratorNames accelerator_names(const model::Trace& trace, const AllocatorConf& conf);

}  // namespace plimsoll::findings

#include "probes/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>

namespace plimsoll::probes {
namespace {

// The parts of NVML's types that are needed here: names and layouts as in its reference.
using Handle = void*;
using Answer = int;
constexpr Answer kSuccess = 0;
constexpr Answer kNoPermission = 4;
constexpr Answer kInsufficientSize = 7;
constexpr Answer kDriverNotLoaded = 9;
constexpr Answer kVersionMismatch = 18;
constexpr std::uint64_t kNotAvailable = UINT64_MAX;

struct ProcessV1 {
  unsigned pid;
  unsigned long long used;
};
struct ProcessV2 {  // also used by the _v3 functions
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance;
  unsigned compute_instance;
};

constexpr unsigned kMostDevices = 256;
constexpr unsigned kMostProcesses = 1 << 16;

using Text = Answer (*)(Handle, char*, unsigned);
using Processes = Answer (*)(Handle, unsigned*, void*);

std::string text_of(Text function, Handle device) {
  std::array<char, 96> text{};
  if (function == nullptr) return {};
  if (function(device, text.data(), text.size()) != kSuccess) return {};
  text.back() = '\0';
  return text.data();
}

template <typename Process>
bool read_list(Processes function, Handle device,
               std::map<int, std::optional<std::uint64_t>>& reported) {
  std::vector<Process> list(64);
  while (list.size() <= kMostProcesses) {
    auto count = static_cast<unsigned>(list.size());
    const Answer answer = function(device, &count, list.data());
    if (answer == kInsufficientSize) {  // count is the number found; more may have started since
      list.resize(std::max<std::size_t>(list.size() * 2, std::size_t{count} + 16));
      continue;
    }
    if (answer != kSuccess) return false;
    list.resize(std::min<std::size_t>(count, list.size()));
    for (const Process& process : list) {
      auto& used = reported[static_cast<int>(process.pid)];
      // A process that both computes and draws is in both lists, with all its memory in each.
      if (process.used != kNotAvailable && process.used != 0)
        used = std::max<std::uint64_t>(used.value_or(0), process.used);
    }
    return true;
  }
  return false;
}

bool read_any_list(Processes v3, Processes v2, Processes v1, Handle device,
                   std::map<int, std::optional<std::uint64_t>>& reported) {
  if (v3 != nullptr) return read_list<ProcessV2>(v3, device, reported);
  if (v2 != nullptr) return read_list<ProcessV2>(v2, device, reported);
  return v1 != nullptr && read_list<ProcessV1>(v1, device, reported);
}

}  // namespace

struct Nvml::Functions {
  // Layouts as in NVML's reference.
  struct Memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
  };
  struct MemoryV2 {
    unsigned version;
    unsigned long long total;
    unsigned long long reserved;
    unsigned long long free;
    unsigned long long used;
  };
  static constexpr unsigned kMemoryV2 = sizeof(MemoryV2) | (2U << 24);
  struct Utilization {
    unsigned gpu;
    unsigned memory;
  };

  // Each of these may be null.
  Answer (*init)() = nullptr;
  Answer (*shutdown)() = nullptr;
  const char* (*error_string)(Answer) = nullptr;
  Answer (*driver_version)(char*, unsigned) = nullptr;
  Answer (*device_count)(unsigned*) = nullptr;
  Answer (*device_by_index)(unsigned, Handle*) = nullptr;
  Text name = nullptr;
  Text uuid = nullptr;
  Answer (*memory)(Handle, Memory*) = nullptr;
  Answer (*memory_v2)(Handle, MemoryV2*) = nullptr;
  Answer (*utilization)(Handle, Utilization*) = nullptr;
  Processes compute_v3 = nullptr;
  Processes compute_v2 = nullptr;
  Processes compute_v1 = nullptr;
  Processes graphics_v3 = nullptr;
  Processes graphics_v2 = nullptr;
  Processes graphics_v1 = nullptr;
  Answer (*mig_mode)(Handle, unsigned*, unsigned*) = nullptr;
  Answer (*mig_count)(Handle, unsigned*) = nullptr;
  Answer (*mig_by_index)(Handle, unsigned, Handle*) = nullptr;

  void find(void* library);
  void avoid_what_is_broken();
  std::string sentence(Answer answer) const;
  GpuDevice read_device(Handle device, std::string index) const;
  void read_memory(Handle device, GpuDevice& reported) const;
  void read_processes(Handle device, GpuDevice& reported) const;
  void read_instances(Handle device, const std::string& index,
                      std::vector<GpuDevice>& reported) const;
};

void Nvml::Functions::find(void* library) {
  const auto resolve = [&](auto& function, const char* symbol) {
    if (function == nullptr) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
    }
  };
  resolve(init, "nvmlInit_v2");
  resolve(init, "nvmlInit");
  resolve(shutdown, "nvmlShutdown");
  resolve(error_string, "nvmlErrorString");
  resolve(driver_version, "nvmlSystemGetDriverVersion");
  resolve(device_count, "nvmlDeviceGetCount_v2");
  resolve(device_count, "nvmlDeviceGetCount");
  resolve(device_by_index, "nvmlDeviceGetHandleByIndex_v2");
  resolve(device_by_index, "nvmlDeviceGetHandleByIndex");
  resolve(name, "nvmlDeviceGetName");
  resolve(uuid, "nvmlDeviceGetUUID");
  resolve(memory, "nvmlDeviceGetMemoryInfo");
  resolve(memory_v2, "nvmlDeviceGetMemoryInfo_v2");
  resolve(utilization, "nvmlDeviceGetUtilizationRates");
  resolve(compute_v3, "nvmlDeviceGetComputeRunningProcesses_v3");
  resolve(compute_v2, "nvmlDeviceGetComputeRunningProcesses_v2");
  resolve(compute_v1, "nvmlDeviceGetComputeRunningProcesses");
  resolve(graphics_v3, "nvmlDeviceGetGraphicsRunningProcesses_v3");
  resolve(graphics_v2, "nvmlDeviceGetGraphicsRunningProcesses_v2");
  resolve(graphics_v1, "nvmlDeviceGetGraphicsRunningProcesses");
  resolve(mig_mode, "nvmlDeviceGetMigMode");
  resolve(mig_count, "nvmlDeviceGetMaxMigDeviceCount");
  resolve(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex");
}

// Drivers 535.43 and 535.86 return larger entries from _v3 than all other drivers.
void Nvml::Functions::avoid_what_is_broken() {
  std::array<char, 96> version{};
  if (driver_version == nullptr) return;
  if (driver_version(version.data(), version.size() - 1) != kSuccess) return;
  const std::string_view reported(version.data());
  if (!reported.starts_with("535.43") && !reported.starts_with("535.86")) return;
  if (compute_v2 != nullptr) compute_v3 = nullptr;
  if (graphics_v2 != nullptr) graphics_v3 = nullptr;
}

std::string Nvml::Functions::sentence(Answer answer) const {
  if (answer == kDriverNotLoaded) return "the NVIDIA driver is not loaded";
  if (answer == kNoPermission) return "the NVIDIA driver denies access to this user";
  if (answer == kVersionMismatch) {
    return "the NVIDIA driver and its library have different versions; reboot after a driver "
           "update";
  }
  const char* text = error_string != nullptr ? error_string(answer) : nullptr;
  const std::string number = std::to_string(answer);
  return "the NVIDIA driver answers " +
         (text == nullptr ? "error " + number : std::string(text) + " (" + number + ")");
}

void Nvml::Functions::read_memory(Handle device, GpuDevice& reported) const {
  MemoryV2 now{};
  now.version = kMemoryV2;
  if (memory_v2 != nullptr && memory_v2(device, &now) == kSuccess) {
    reported.total_bytes = now.total;
    reported.used_bytes = now.used;
    reported.reserved_bytes = now.reserved;
    reported.free_bytes = now.free;
    return;
  }
  Memory old{};
  if (memory == nullptr || memory(device, &old) != kSuccess) return;
  reported.total_bytes = old.total;
  reported.used_bytes = old.used;
  reported.free_bytes = old.free;
}

void Nvml::Functions::read_processes(Handle device, GpuDevice& reported) const {
  std::map<int, std::optional<std::uint64_t>> found;
  const bool computing = read_any_list(compute_v3, compute_v2, compute_v1, device, found);
  const bool drawing = read_any_list(graphics_v3, graphics_v2, graphics_v1, device, found);
  reported.reports_processes = computing || drawing;
  for (const auto& [pid, used] : found) reported.processes.push_back({pid, used});
}

GpuDevice Nvml::Functions::read_device(Handle device, std::string index) const {
  GpuDevice reported;
  reported.index = std::move(index);
  reported.name = text_of(name, device);
  reported.uuid = text_of(uuid, device);
  read_memory(device, reported);
  Utilization busy{};
  if (utilization != nullptr && utilization(device, &busy) == kSuccess)
    reported.busy_percent = busy.gpu;
  read_processes(device, reported);
  return reported;
}

// With MIG, the whole GPU reports no busy time and often no processes, but its instances do.
void Nvml::Functions::read_instances(Handle device, const std::string& index,
                                     std::vector<GpuDevice>& reported) const {
  unsigned is_on = 0;
  unsigned pending = 0;
  unsigned count = 0;
  if (mig_mode == nullptr || mig_count == nullptr || mig_by_index == nullptr) return;
  if (mig_mode(device, &is_on, &pending) != kSuccess || is_on == 0) return;
  if (mig_count(device, &count) != kSuccess) return;
  for (unsigned i = 0; i < std::min(count, kMostDevices); ++i) {
    Handle instance = nullptr;
    if (mig_by_index(device, i, &instance) != kSuccess) continue;  // no instance at this index
    reported.push_back(read_device(instance, index + ":" + std::to_string(i)));
  }
}

Result<Nvml> Nvml::load(const std::string& library) {
  // Never closed: the driver's threads do not survive closing it.
  void* opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    return make_error(ErrorCode::kUnsupported,
                      "there is no NVIDIA driver on this machine (" + library + " is not found)");
  }
  auto functions = std::make_unique<Functions>();
  functions->find(opened);
  if (functions->init == nullptr || functions->device_count == nullptr ||
      functions->device_by_index == nullptr) {
    return make_error(ErrorCode::kUnsupported, library + " is not NVIDIA's management library");
  }
  const Answer answer = functions->init();
  if (answer != kSuccess) {
    return make_error(ErrorCode::kUnsupported, functions->sentence(answer));
  }
  functions->avoid_what_is_broken();
  Nvml nvml(std::move(functions));  // calls shutdown() for the init() above
  unsigned count = 0;
  const Answer counted = nvml.functions_->device_count(&count);
  if (counted != kSuccess) {
    return make_error(ErrorCode::kUnsupported, nvml.functions_->sentence(counted));
  }
  if (count == 0) return make_error(ErrorCode::kUnsupported, "the NVIDIA driver finds no GPU");
  return nvml;
}

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;

Nvml::~Nvml() {
  if (functions_ && functions_->shutdown != nullptr) functions_->shutdown();
}

std::vector<GpuDevice> Nvml::read() {
  std::vector<GpuDevice> reported;
  unsigned count = 0;
  if (functions_->device_count(&count) != kSuccess) return reported;
  for (unsigned i = 0; i < std::min(count, kMostDevices); ++i) {
    const std::string index = std::to_string(i);
    Handle device = nullptr;
    if (functions_->device_by_index(i, &device) != kSuccess) {
      reported.emplace_back().index = index;
      continue;
    }
    reported.push_back(functions_->read_device(device, index));
    functions_->read_instances(device, index, reported);
  }
  return reported;
}

}  // namespace plimsoll::probes

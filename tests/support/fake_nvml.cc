// A libnvidia-ml.so.1 for tests. It simulates the devices in the text file $FAKE_NVML, which it
// reads at every call. With FAKE_NVML_OLD, only the first version of each function exists.
//
//   driver 550.54.15
//   device NAME|UUID|total|used|reserved|busy percent
//   instance NAME|UUID|total|used|reserved|-1       of the device before it, which is cut up
//   process PID compute|graphics BYTES|na          of the device or instance before it
//   fail FUNCTION ANSWER
//   hang FUNCTION                                  until the line is gone
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
[[maybe_unused]] constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;

struct Process {
  unsigned pid = 0;
  std::string kind;
  unsigned long long used = 0;
};
struct Device {
  std::string name;
  std::string uuid;
  unsigned long long total = 0;
  unsigned long long used = 0;
  unsigned long long reserved = 0;
  int busy = -1;
  std::vector<Process> processes;
  std::vector<Device> instances;
};
struct Script {
  std::string driver = "550.54.15";
  std::vector<Device> devices;
  std::map<std::string, int> fails;
  std::map<std::string, int> hangs;
};

Device read_device(const std::string& line) {
  Device device;
  std::istringstream words(line);
  std::string word;
  std::getline(words, device.name, '|');
  std::getline(words, device.uuid, '|');
  std::getline(words, word, '|');
  device.total = std::strtoull(word.c_str(), nullptr, 10);
  std::getline(words, word, '|');
  device.used = std::strtoull(word.c_str(), nullptr, 10);
  std::getline(words, word, '|');
  device.reserved = std::strtoull(word.c_str(), nullptr, 10);
  std::getline(words, word, '|');
  device.busy = std::atoi(word.c_str());
  return device;
}

Script read_script() {
  Script script;
  const char* path = std::getenv("FAKE_NVML");
  std::ifstream file(path != nullptr ? path : "");
  Device* last = nullptr;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what >> std::ws;
    std::string rest;
    if (what == "process") {
      Process process;
      std::string used;
      words >> process.pid >> process.kind >> used;
      process.used = used == "na" ? UINT64_MAX : std::strtoull(used.c_str(), nullptr, 10);
      if (last != nullptr) last->processes.push_back(process);  // the file may be incomplete
      continue;
    }
    std::getline(words, rest);
    if (what == "driver") script.driver = rest;
    if (what == "device") last = &script.devices.emplace_back(read_device(rest));
    if (what == "instance" && last != nullptr)
      last = &script.devices.back().instances.emplace_back(read_device(rest));
    const std::string function = rest.substr(0, rest.find(' '));
    if (what == "fail") script.fails[function] = std::atoi(rest.c_str() + function.size());
    if (what == "hang") script.hangs[function] = 1;
  }
  return script;
}

// 0, or the scripted answer of this function.
int play(const char* function, Script& script) {
  script = read_script();
  while (script.hangs.count(function) != 0) {
    ::usleep(1000);
    script = read_script();
  }
  const auto found = script.fails.find(function);
  return found == script.fails.end() ? kSuccess : found->second;
}

// Handles are 1 + device + 1000 * (1 + instance).
const Device* find_device(const Script& script, void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  const std::size_t device = number % 1000 - 1;
  if (number == 0 || device >= script.devices.size()) return nullptr;
  if (number < 1000) return &script.devices[device];
  const std::size_t instance = number / 1000 - 1;  // possibly from an earlier script
  const std::vector<Device>& instances = script.devices[device].instances;
  return instance < instances.size() ? &instances[instance] : nullptr;
}

// If the script has changed since the handle was returned, this may be a device without data.
const Device& device_of(const Script& script, void* handle) {
  static const Device gone;
  const Device* found = find_device(script, handle);
  return found != nullptr ? *found : gone;
}

void* handle_of(std::size_t number) { return reinterpret_cast<void*>(number); }

int copy(const std::string& text, char* to, unsigned size) {
  if (text.size() >= size) return kInsufficientSize;
  std::snprintf(to, size, "%s", text.c_str());
  return kSuccess;
}

[[maybe_unused]] constexpr std::size_t kBytesOld = 16;
[[maybe_unused]] constexpr std::size_t kBytesNow = 24;
[[maybe_unused]] constexpr std::size_t kBytesBroken = 32;

// Entries of `bytes` bytes: pid at 0, used at 8, the rest a pattern.
int list(const Script& script, void* handle, const std::string& kind, unsigned* count, char* to,
         std::size_t bytes) {
  const Device* device = find_device(script, handle);
  if (device == nullptr) return kInvalidArgument;
  std::vector<Process> found;
  for (const Process& process : device->processes) {
    if (process.kind == kind) found.push_back(process);
  }
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (found.size() > room) return kInsufficientSize;
  for (const Process& process : found) {
    std::fill(to, to + bytes, '\x5a');
    std::copy_n(reinterpret_cast<const char*>(&process.pid), 4, to);
    std::copy_n(reinterpret_cast<const char*>(&process.used), 8, to + 8);
    to += bytes;
  }
  return kSuccess;
}

}  // namespace

// The beginning of every function: the script, and the scripted answer.
#define PLAY(function) \
  Script script;       \
  if (const int answer = play(function, script); answer != 0) return answer

extern "C" {
#pragma GCC visibility push(default)

const char* nvmlErrorString(int answer);
int nvmlInit();
int nvmlShutdown();
int nvmlSystemGetDriverVersion(char* to, unsigned size);
int nvmlDeviceGetCount(unsigned* count);
int nvmlDeviceGetHandleByIndex(unsigned index, void** device);
int nvmlDeviceGetName(void* device, char* to, unsigned size);
int nvmlDeviceGetUUID(void* device, char* to, unsigned size);
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory);
int nvmlDeviceGetUtilizationRates(void* device, unsigned* utilization);
int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, char* to);
int nvmlDeviceGetGraphicsRunningProcesses(void* device, unsigned* count, char* to);

const char* nvmlErrorString(int answer) { return answer == 999 ? "Unknown Error" : nullptr; }
int nvmlInit() {
  PLAY("nvmlInit");
  return kSuccess;
}
int nvmlShutdown() { return kSuccess; }
int nvmlSystemGetDriverVersion(char* to, unsigned size) {
  PLAY("nvmlSystemGetDriverVersion");
  return copy(script.driver, to, size);
}
int nvmlDeviceGetCount(unsigned* count) {
  PLAY("nvmlDeviceGetCount");
  *count = static_cast<unsigned>(script.devices.size());
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex(unsigned index, void** device) {
  PLAY("nvmlDeviceGetHandleByIndex");
  *device = handle_of(index + 1);
  return kSuccess;
}
int nvmlDeviceGetName(void* device, char* to, unsigned size) {
  PLAY("nvmlDeviceGetName");
  return copy(device_of(script, device).name, to, size);
}
int nvmlDeviceGetUUID(void* device, char* to, unsigned size) {
  PLAY("nvmlDeviceGetUUID");
  return copy(device_of(script, device).uuid, to, size);
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  PLAY("nvmlDeviceGetMemoryInfo");
  const Device& found = device_of(script, device);
  memory[0] = found.total;
  memory[2] = found.used + found.reserved;
  memory[1] = found.total - memory[2];
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* utilization) {
  PLAY("nvmlDeviceGetUtilizationRates");
  const Device& found = device_of(script, device);
  if (found.busy < 0) return kNotSupported;
  utilization[0] = static_cast<unsigned>(found.busy);
  utilization[1] = 0;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, char* to) {
  PLAY("nvmlDeviceGetComputeRunningProcesses");
  return list(script, device, "compute", count, to, kBytesOld);
}
int nvmlDeviceGetGraphicsRunningProcesses(void* device, unsigned* count, char* to) {
  PLAY("nvmlDeviceGetGraphicsRunningProcesses");
  return list(script, device, "graphics", count, to, kBytesOld);
}

#ifndef FAKE_NVML_OLD
int nvmlDeviceGetMemoryInfo_v2(void* device, void* memory);
int nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned* count, char* to);
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, char* to);
int nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, unsigned* count, char* to);
int nvmlDeviceGetMigMode(void* device, unsigned* is_on, unsigned* pending);
int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count);
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance);

int nvmlDeviceGetMemoryInfo_v2(void* device, void* memory) {
  PLAY("nvmlDeviceGetMemoryInfo_v2");
  if (*static_cast<unsigned*>(memory) != 0x02000028) return 25;  // another version
  const Device& found = device_of(script, device);
  auto* reported = static_cast<unsigned long long*>(memory) + 1;
  reported[0] = found.total;
  reported[1] = found.reserved;
  reported[2] = found.total - found.used - found.reserved;
  reported[3] = found.used;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned* count, char* to) {
  PLAY("nvmlDeviceGetComputeRunningProcesses_v2");
  return list(script, device, "compute", count, to, kBytesNow);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, char* to) {
  PLAY("nvmlDeviceGetComputeRunningProcesses_v3");
  const bool is_broken = script.driver.rfind("535.43", 0) == 0;
  return list(script, device, "compute", count, to, is_broken ? kBytesBroken : kBytesNow);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, unsigned* count, char* to) {
  PLAY("nvmlDeviceGetGraphicsRunningProcesses_v3");
  return list(script, device, "graphics", count, to, kBytesNow);
}
int nvmlDeviceGetMigMode(void* device, unsigned* is_on, unsigned* pending) {
  PLAY("nvmlDeviceGetMigMode");
  *is_on = *pending = device_of(script, device).instances.empty() ? 0 : 1;
  return kSuccess;
}
int nvmlDeviceGetMaxMigDeviceCount(void* /*device*/, unsigned* count) {
  PLAY("nvmlDeviceGetMaxMigDeviceCount");
  *count = 7;
  return kSuccess;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance) {
  PLAY("nvmlDeviceGetMigDeviceHandleByIndex");
  if (index >= device_of(script, device).instances.size()) return kNotFound;
  const std::size_t number = reinterpret_cast<std::uintptr_t>(device) + 1000 * (index + 1);
  *instance = handle_of(number);
  return kSuccess;
}
#endif

#pragma GCC visibility pop
}

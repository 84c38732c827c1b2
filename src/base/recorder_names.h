// Phases, states of autograd, device types and roles, with their names, by their numbers in
// plimsoll/recorder_c.h and in trace files. The only table of each, for dumps, tables, monitors and
// Python. recorder_names_test.cc in src/sample compares them with the header.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::base {

enum class Phase : std::uint8_t { kOther, kForward, kBackward, kOptimizer, kData };

inline constexpr std::array<std::string_view, 5> kPhaseNames = {"other", "forward", "backward",
                                                                "optimizer", "data"};

constexpr std::string_view name_of(Phase phase) {
  return kPhaseNames[static_cast<std::size_t>(phase)];
}

// Later versions may have more phases.
constexpr Phase phase_of(std::uint8_t number) {
  return number < kPhaseNames.size() ? static_cast<Phase>(number) : Phase::kOther;
}

// Whether autograd records the operator that allocates, and has built a node.
enum class Autograd : std::uint8_t { kUnknown, kOff, kOn, kBuilt };

inline constexpr std::array<std::string_view, 4> kAutogradNames = {"unknown", "off", "on", "built"};

constexpr std::string_view name_of(Autograd autograd) {
  return kAutogradNames[static_cast<std::size_t>(autograd)];
}

// Later versions may have more states.
constexpr Autograd autograd_of(std::uint8_t number) {
  return number < kAutogradNames.size() ? static_cast<Autograd>(number) : Autograd::kUnknown;
}

enum class DeviceType : std::uint8_t {
  kCpu,
  kCuda,
  kHip,
  kXpu,
  kPinnedHost,
  kOther,
  kMtia,
  kNpu,
  kHpu,
  kMps
};

inline constexpr std::array<std::string_view, 10> kDeviceTypeNames = {
    "cpu", "cuda", "hip", "xpu", "pinned_host", "other", "mtia", "npu", "hpu", "mps"};

constexpr std::string_view name_of(DeviceType type) {
  return kDeviceTypeNames[static_cast<std::size_t>(type)];
}

// Later versions may have more types.
constexpr DeviceType device_type_of(std::uint8_t number) {
  return number < kDeviceTypeNames.size() ? static_cast<DeviceType>(number) : DeviceType::kOther;
}

// Whether the memory is the host's. A host has one device of each of these types.
constexpr bool is_host(DeviceType type) {
  return type == DeviceType::kCpu || type == DeviceType::kPinnedHost;
}

// "cuda:0", "cpu"
inline std::string device_name(DeviceType type, std::int32_t ordinal) {
  std::string name(name_of(type));
  return is_host(type) ? name : name + ":" + std::to_string(ordinal);
}

// The first name is for a tensor that is known but has none of the other roles.
inline constexpr std::array<std::string_view, 8> kRoleNames = {
    "known",  "parameter", "gradient",  "optimizer_state",
    "buffer", "input",     "workspace", "activation"};

}  // namespace plimsoll::base

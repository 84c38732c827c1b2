// The fields of a MemorySample, each named once. This list defines the bytes that `plimsoll top`
// reads, the lines of the text log and their parser, the tags of TensorBoard, the figures of
// `plimsoll analyze`, and the attributes in Python. A new figure needs a member in
// plimsoll/memory_sample.h, a line here, and the code that measures it.
//
// Lines in a log, tags and figures have the order of this list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/device_bar.h"
#include "base/fields.h"
#include "plimsoll/memory_sample.h"

namespace plimsoll::sample {

// The form of the value in a line of the text log; all except kSize and kShares have separate code.
enum class LogForm : std::uint8_t {
  kNone,
  kSize,           // "8073.4 MB"
  kShares,         // "activation 4000.0 MB in 100, parameter 2000.0 MB in 120"
  kLargestShares,  // the largest of them, and the rest as one
  kSizes,          // "parameter 40.000 MB, activation 900.0 MB"
  kExactSize,      // kSize, to the byte
  kExactSizes,
  kWord,
  kEachTensor,  // one line for each
  kPercent,     // "20.3%"
  kAllocated,   // kSize; for the CPU, its live bytes
  kUsed,        // "12000.0 MB of 16000.0 MB"
  kBar,         // "tensors 8073.4 MB, process 77 100.0 MB"
  kTensors,     // "400 in 8000.0 MB"
  kLarge        // "2 in 1536.0 MB, each above 100.0 MB", and one line for each of the largest
};

// The uses of a field other than bytes and an attribute; nullptr: none.
struct Uses {
  LogForm log = LogForm::kNone;
  const char* log_key = nullptr;
  const char* tag = nullptr;     // for a size: in GB
  const char* figure = nullptr;  // of `plimsoll analyze`; for a size, NAME_bytes
  bool is_summed = false;        // over devices; otherwise known only if there is one device
};

template <typename Owner, typename Member>
struct SampleField {
  using Type = Member;
  const char* name;
  Member Owner::* member;
  Uses uses = {};

  const Member& of(const Owner& owner) const { return owner.*member; }
};
template <typename Owner, typename Member>
SampleField(const char*, Member Owner::*) -> SampleField<Owner, Member>;
template <typename Owner, typename Member>
SampleField(const char*, Member Owner::*, Uses) -> SampleField<Owner, Member>;

// A figure computed from the fields but not stored.
template <typename Owner>
struct DerivedFigure {
  std::optional<double> (*of)(const Owner& owner);
  bool is_size;
  Uses uses;
};

inline std::optional<double> percent_of(const std::optional<std::uint64_t>& part,
                                        const std::optional<std::uint64_t>& whole) {
  if (!part || !whole || *whole == 0) return std::nullopt;
  return 100.0 * static_cast<double>(*part) / static_cast<double>(*whole);
}

inline constexpr DerivedFigure<DeviceMemory> kFragmentation{
    .of = [](const DeviceMemory& device) -> std::optional<double> {
      const auto ratio = fragmentation_ratio(device);
      return ratio ? std::optional(*ratio * 100) : std::nullopt;
    },
    .is_size = false,
    .uses = {.log = LogForm::kPercent,
             .log_key = "Fragmentation",
             .tag = "fragmentation_percent",
             .figure = "fragmentation_percent"}};

// Negative if the figures do not agree.
inline constexpr DerivedFigure<DeviceMemory> kNonPytorch{
    .of = [](const DeviceMemory& device) -> std::optional<double> {
      const auto bytes = device.bar ? base::outside_bytes(*device.bar) : std::nullopt;
      return bytes ? std::optional(static_cast<double>(*bytes)) : std::nullopt;
    },
    .is_size = true,
    .uses = {.tag = "vram_non_pytorch", .figure = "non_pytorch_bytes"}};

inline constexpr DerivedFigure<DeviceMemory> kUsedPercent{
    .of =
        [](const DeviceMemory& device) {
          return percent_of(device.used_bytes, device.total_bytes);
        },
    .is_size = false,
    .uses = {.tag = "vram_percent"}};

inline constexpr DerivedFigure<HostMemory> kHostPercent{
    .of = [](const HostMemory& host) { return percent_of(host.used_bytes, host.total_bytes); },
    .is_size = false,
    .uses = {.tag = "ram_percent"}};

// The field list of each struct. for_each_field() skips derived fields.
template <typename T>
struct SampleFields {};

template <>
struct SampleFields<MemoryShare> {
  static constexpr auto kList = base::field_list(
      SampleField{"name", &MemoryShare::name}, SampleField{"size_bytes", &MemoryShare::size_bytes},
      SampleField{"count", &MemoryShare::count});
};

template <>
struct SampleFields<LiveTensor> {
  static constexpr auto kList = base::field_list(
      SampleField{"name", &LiveTensor::name}, SampleField{"category", &LiveTensor::category},
      SampleField{"dtype", &LiveTensor::dtype}, SampleField{"shape", &LiveTensor::shape},
      SampleField{"layer", &LiveTensor::layer}, SampleField{"size_bytes", &LiveTensor::size_bytes});
};

template <>
struct SampleFields<DevicePart> {
  static constexpr auto kList = base::field_list(
      SampleField{"kind", &DevicePart::kind}, SampleField{"size_bytes", &DevicePart::size_bytes},
      SampleField{"pid", &DevicePart::pid}, SampleField{"count", &DevicePart::count},
      SampleField{"name", &DevicePart::name});
};

template <>
struct SampleFields<DeviceBar> {
  static constexpr auto kList = base::field_list(
      SampleField{"used_bytes", &DeviceBar::used_bytes},
      SampleField{"total_bytes", &DeviceBar::total_bytes},
      SampleField{"time_ns", &DeviceBar::time_ns}, SampleField{"parts", &DeviceBar::parts});
};

template <>
struct SampleFields<HostMemory> {
  static constexpr auto kList = base::field_list(
      SampleField{
          "rss_bytes", &HostMemory::rss_bytes, {.tag = "ram_process", .figure = "process_bytes"}},
      SampleField{"worker_count", &HostMemory::worker_count},
      SampleField{"workers_bytes",
                  &HostMemory::workers_bytes,
                  {.tag = "ram_workers", .figure = "workers_bytes"}},
      SampleField{
          "used_bytes", &HostMemory::used_bytes, {.tag = "ram_used", .figure = "used_bytes"}},
      SampleField{"total_bytes", &HostMemory::total_bytes}, kHostPercent,
      SampleField{"cpu_percent",
                  &HostMemory::cpu_percent,
                  {.tag = "cpu_percent", .figure = "cpu_percent"}});
};

template <>
struct SampleFields<DeviceMemory> {
  static constexpr auto kList = base::field_list(
      SampleField{"name", &DeviceMemory::name},
      SampleField{"allocated_bytes",
                  &DeviceMemory::allocated_bytes,
                  {.log = LogForm::kAllocated,
                   .log_key = "Allocated",
                   .tag = "vram_allocated",
                   .figure = "allocated_bytes",
                   .is_summed = true}},
      SampleField{"reserved_bytes",
                  &DeviceMemory::reserved_bytes,
                  {.log = LogForm::kSize,
                   .log_key = "Reserved",
                   .tag = "vram_reserved",
                   .figure = "reserved_bytes",
                   .is_summed = true}},
      kFragmentation,
      // The peaks of several devices may be at different times.
      SampleField{
          "peak_bytes",
          &DeviceMemory::peak_bytes,
          {.log = LogForm::kSize, .log_key = "Peak", .tag = "vram_peak", .figure = "peak_bytes"}},
      SampleField{"peak_phase",
                  &DeviceMemory::peak_phase,
                  {.log = LogForm::kWord, .log_key = "Peak phase"}},
      SampleField{
          "at_peak", &DeviceMemory::at_peak, {.log = LogForm::kSizes, .log_key = "At peak"}},
      SampleField{"peak_tensors",
                  &DeviceMemory::peak_tensors,
                  {.log = LogForm::kEachTensor, .log_key = "Tensor at peak"}},
      SampleField{"growth_bytes",
                  &DeviceMemory::growth_bytes,
                  {.log = LogForm::kExactSize,
                   .log_key = "Growth per iteration",
                   .tag = "vram_growth",
                   .figure = "growth_bytes",
                   .is_summed = true}},
      SampleField{"growing",
                  &DeviceMemory::growing,
                  {.log = LogForm::kExactSizes, .log_key = "Growing per iteration"}},
      SampleField{"unused_bytes",
                  &DeviceMemory::unused_bytes,
                  {.log = LogForm::kExactSize,
                   .log_key = "Unused for two steps",
                   .figure = "unused_bytes",
                   .is_summed = true}},
      SampleField{"unused",
                  &DeviceMemory::unused,
                  {.log = LogForm::kLargestShares, .log_key = "Unused by layer"}},
      SampleField{"used_bytes",
                  &DeviceMemory::used_bytes,
                  {.log = LogForm::kUsed,
                   .log_key = "Device used",
                   .tag = "vram_used",
                   .figure = "used_bytes",
                   .is_summed = true}},
      SampleField{"total_bytes", &DeviceMemory::total_bytes, {.is_summed = true}},
      SampleField{"uuid", &DeviceMemory::uuid},
      SampleField{"bar", &DeviceMemory::bar, {.log = LogForm::kBar, .log_key = "Device bar"}},
      kNonPytorch, kUsedPercent,
      SampleField{"live_count",
                  &DeviceMemory::live_count,
                  {.log = LogForm::kTensors, .log_key = "Tensors", .is_summed = true}},
      SampleField{"live_bytes", &DeviceMemory::live_bytes, {.is_summed = true}},
      SampleField{"categories",
                  &DeviceMemory::categories,
                  {.log = LogForm::kShares, .log_key = "Categories", .is_summed = true}},
      SampleField{"dtypes",
                  &DeviceMemory::dtypes,
                  {.log = LogForm::kShares, .log_key = "Dtypes", .is_summed = true}},
      SampleField{"layers",
                  &DeviceMemory::layers,
                  {.log = LogForm::kLargestShares, .log_key = "Layers", .is_summed = true}},
      SampleField{"components",
                  &DeviceMemory::components,
                  {.log = LogForm::kLargestShares, .log_key = "Components", .is_summed = true}},
      SampleField{"large_count",
                  &DeviceMemory::large_count,
                  {.log = LogForm::kLarge, .log_key = "Large tensors", .is_summed = true}},
      SampleField{"large_bytes", &DeviceMemory::large_bytes, {.is_summed = true}},
      SampleField{"large_tensors", &DeviceMemory::large_tensors});
};

template <>
struct SampleFields<MemorySample> {
  static constexpr auto kList = base::field_list(
      SampleField{"time_ns", &MemorySample::time_ns},
      SampleField{"iteration", &MemorySample::iteration}, SampleField{"loss", &MemorySample::loss},
      SampleField{"batch_size", &MemorySample::batch_size},
      SampleField{"ran_out", &MemorySample::ran_out},
      SampleField{"ran_out_of", &MemorySample::ran_out_of},
      SampleField{"failed_batch_size", &MemorySample::failed_batch_size},
      SampleField{"large_tensor_bytes", &MemorySample::large_tensor_bytes},
      SampleField{"host", &MemorySample::host}, SampleField{"devices", &MemorySample::devices});
};

template <typename T>
concept HasSampleFields = requires { SampleFields<T>::kList; };

template <typename T>
struct IsDerived : std::false_type {};
template <typename Owner>
struct IsDerived<DerivedFigure<Owner>> : std::true_type {};

// Visits all fields, and only the stored ones.
template <typename T, typename Visitor>
constexpr void for_each_figure(Visitor&& visitor) {
  SampleFields<T>::kList(visitor);
}
template <typename T, typename Visitor>
constexpr void for_each_field(Visitor&& visitor) {
  for_each_figure<T>([&](const auto& field) {
    if constexpr (!IsDerived<std::remove_cvref_t<decltype(field)>>::value) visitor(field);
  });
}

// A hash (FNV-1a) of the names in order, so that a reader with a different list can detect it.
template <typename T>
constexpr std::uint32_t list_version(std::uint32_t before = 2'166'136'261U) {
  std::uint32_t version = before;
  for_each_field<T>([&](const auto& field) {
    for (const char* at = field.name; *at != '\0'; ++at) {
      version = (version ^ static_cast<unsigned char>(*at)) * 16'777'619U;
    }
  });
  return version;
}
inline constexpr std::uint32_t kSampleVersion = list_version<MemorySample>(
    list_version<HostMemory>(list_version<DeviceMemory>(list_version<DeviceBar>(
        list_version<DevicePart>(list_version<LiveTensor>(list_version<MemoryShare>()))))));

// The value of a figure, and whether it is a size; nullopt if unknown or not a figure.
template <typename Owner, typename Figure>
std::optional<double> figure_value(const Figure& figure, const Owner& owner) {
  const auto& value = figure.of(owner);
  if constexpr (requires { value.has_value(), static_cast<double>(*value); }) {
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  } else {
    return std::nullopt;
  }
}
template <typename Figure>
constexpr bool is_size(const Figure& figure) {
  if constexpr (IsDerived<Figure>::value) {
    return figure.is_size;
  } else {
    return std::is_same_v<typename Figure::Type, std::optional<std::uint64_t>>;
  }
}

}  // namespace plimsoll::sample

#include "driver_queries.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "lookup.h"

namespace plimsoll::cuda_driver {
namespace {

constexpr int kDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL

// A function of the driver, looked up at first use, once the driver is loaded.
template <typename Function>
class Query {
 public:
  constexpr explicit Query(const char* name, const char* older = nullptr)
      : name_(name), older_(older) {}

  Function* get() noexcept {
    Function* known = function_.load(std::memory_order_relaxed);
    if (known != nullptr || is_missing_.load(std::memory_order_relaxed)) return known;
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (driver == nullptr) return nullptr;
    void* found = real_dlsym()(driver, name_);
    if (found == nullptr && older_ != nullptr) found = real_dlsym()(driver, older_);
    if (found == nullptr) is_missing_.store(true, std::memory_order_relaxed);
    known = reinterpret_cast<Function*>(found);
    function_.store(known, std::memory_order_relaxed);
    return known;
  }

 private:
  const char* name_;
  const char* older_;
  std::atomic<Function*> function_{nullptr};
  std::atomic<bool> is_missing_{false};
};

using Uuid = std::array<unsigned char, 16>;

constinit Query<int(int*)> get_device{"cuCtxGetDevice"};
constinit Query<int(void*, int, std::uint64_t)> get_attribute{"cuPointerGetAttribute"};
constinit Query<int(int*)> get_device_count{"cuDeviceGetCount"};
constinit Query<int(Uuid*, int)> get_uuid{"cuDeviceGetUuid_v2", "cuDeviceGetUuid"};
constinit Query<int(std::size_t*, std::size_t*)> get_memory{"cuMemGetInfo_v2"};

std::string text_of(const Uuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[uuid[i] >> 4];
    text += kDigits[uuid[i] & 15];
  }
  return text;
}

}  // namespace

int current_device() noexcept {
  int ordinal = 0;
  const auto ask = get_device.get();
  return ask != nullptr && ask(&ordinal) == 0 ? ordinal : 0;
}

int device_of(std::uint64_t address, int otherwise) noexcept {
  int ordinal = -1;
  const auto ask = get_attribute.get();
  if (ask == nullptr || ask(&ordinal, kDeviceOrdinal, address) != 0) return otherwise;
  return ordinal >= 0 ? ordinal : otherwise;
}

std::vector<std::string> device_uuids() {
  std::vector<std::string> uuids;
  const auto count_of = get_device_count.get();
  const auto ask = get_uuid.get();
  int count = 0;
  if (count_of == nullptr || ask == nullptr || count_of(&count) != 0) return uuids;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    Uuid uuid{};
    uuids.push_back(ask(&uuid, ordinal) == 0 ? text_of(uuid) : std::string());
  }
  return uuids;
}

DeviceMemory device_memory() noexcept {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const auto ask = get_memory.get();
  if (ask == nullptr || ask(&free_bytes, &total_bytes) != 0) return {};
  return {free_bytes, total_bytes};
}

}  // namespace plimsoll::cuda_driver

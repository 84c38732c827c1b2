// A program's own allocator. No other deleter can free its blocks, because they begin in the middle
// of what malloc() returned.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <cstring>

namespace {

constexpr std::size_t kShift = 64;
std::size_t g_live = 0;

void free_shifted(void* data) {
  if (data == nullptr) return;
  --g_live;
  std::free(static_cast<char*>(data) - kShift);
}

class ShiftedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size_bytes) override {
    if (size_bytes == 0) return {nullptr, nullptr, &free_shifted, c10::DeviceType::CPU};
    void* const data = static_cast<char*>(std::malloc(size_bytes + kShift)) + kShift;
    ++g_live;
    return {data, data, &free_shifted, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_shifted; }
  void copy_data(void* to, const void* from, std::size_t size_bytes) const override {
    std::memcpy(to, from, size_bytes);
  }
};

}  // namespace

extern "C" {

void set_shifted_allocator() {
  static ShiftedAllocator allocator;
  c10::SetAllocator(c10::DeviceType::CPU, &allocator, 200);
}
std::size_t live_shifted_blocks() { return g_live; }
}

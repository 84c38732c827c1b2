// A libcuda.so.1 for tests. Its devices are the UUIDs in $FAKE_CUDA: hexadecimal digits without
// dashes, separated by spaces. Without that variable, initialization fails.
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::vector<std::string> devices() {
  const char* text = std::getenv("FAKE_CUDA");
  std::istringstream words(text != nullptr ? text : "");
  std::vector<std::string> found;
  for (std::string word; words >> word;) found.push_back(word);
  return found;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int cuDeviceGetCount(int* count);
int cuDeviceGet(int* device, int ordinal);
int cuDeviceGetUuid_v2(unsigned char* uuid, int device);

int cuDeviceGetCount(int* count) {
  constexpr int kNotInitialized = 3;
  if (std::getenv("FAKE_CUDA") == nullptr) return kNotInitialized;
  *count = static_cast<int>(devices().size());
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 100 + ordinal;
  return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  constexpr int kInvalidDevice = 101;
  const auto all = devices();
  const auto ordinal = static_cast<std::size_t>(device - 100);
  if (ordinal >= all.size() || all[ordinal].size() != 32) return kInvalidDevice;
  for (std::size_t i = 0; i < 16; ++i) {
    uuid[i] = static_cast<unsigned char>(std::stoul(all[ordinal].substr(2 * i, 2), nullptr, 16));
  }
  return 0;
}

#pragma GCC visibility pop
}

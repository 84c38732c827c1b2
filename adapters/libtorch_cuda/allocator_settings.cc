#include "allocator_settings.h"

#include <cstring>

namespace plimsoll::libtorch_cuda {
namespace {

std::uint32_t name_of(const plimsoll_recorder_api& api, const std::string& text) {
  return text.empty() ? 0 : api.name(text.data(), text.size());
}

}  // namespace

void report_settings(const plimsoll_recorder_api& api, const std::vector<SeenSetting>& settings) {
  for (const SeenSetting& setting : settings) {
    const std::uint32_t name = name_of(api, setting.name);
    if (const auto* flag = std::get_if<bool>(&setting.value)) {
      api.setting(name, PLIMSOLL_SETTING_BOOLEAN, *flag ? 1 : 0);
    } else if (const auto* integer = std::get_if<std::int64_t>(&setting.value)) {
      api.setting(name, PLIMSOLL_SETTING_INTEGER, static_cast<std::uint64_t>(*integer));
    } else if (const auto* number = std::get_if<double>(&setting.value)) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, number, sizeof(bits));
      api.setting(name, PLIMSOLL_SETTING_NUMBER, bits);
    } else {
      api.setting(name, PLIMSOLL_SETTING_TEXT, name_of(api, std::get<std::string>(setting.value)));
    }
  }
}

}  // namespace plimsoll::libtorch_cuda

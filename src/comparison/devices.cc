#include "comparison/devices.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace plimsoll::comparison {
namespace {

constexpr std::string_view kHost = "cpu";

std::set<std::string> devices_of(const report::Digest& digest) {
  std::set<std::string> devices;
  for (const report::DigestPoint& point : digest.points) devices.insert(point.device);
  return devices;
}

// nullopt: there are several, or none.
std::optional<std::string> trained_on(std::set<std::string> devices) {
  if (devices.size() > 1) devices.erase(std::string(kHost));
  return devices.size() == 1 ? std::optional(*devices.begin()) : std::nullopt;
}

}  // namespace

std::string pair_devices(report::Digest& before, const report::Digest& after) {
  const auto from = trained_on(devices_of(before));
  const auto to = trained_on(devices_of(after));
  if (!from || !to || *from == *to) return {};
  const auto rename = [&](std::string& device) {
    if (device == *from) {
      device = *to;
    } else if (device == *to) {
      device += ", its host";
    }
  };
  for (report::DigestPoint& point : before.points) rename(point.device);
  for (report::DigestKey& key : before.keys) rename(key.device);
  return "The devices differ: " + *from + " before, " + *to +
         " after. Each trains on one, so they are compared with each other.";
}

}  // namespace plimsoll::comparison

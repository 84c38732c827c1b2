#include "record/output/definitions.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/utf8.h"
#include "plimsoll/recorder_c.h"

namespace plimsoll::record {
namespace {

constexpr std::size_t kChunkBytes = 256u << 10;
constexpr std::size_t kMaxDevices = 255;
constexpr std::uint8_t kOtherDevice = 255;  // for all devices beyond the limit
constexpr std::size_t kRoles = 8;
constexpr std::string_view kNameBeyond = "(beyond the limit of names)";

std::uint64_t hash_frames(std::span<const format::Frame> frames) noexcept {
  return base::hash_bytes(frames.data(), frames.size_bytes());
}

bool same_frames(std::span<const format::Frame> a, std::span<const format::Frame> b) noexcept {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace

Definitions::Definitions(const DefinitionLimits& limits) noexcept : limits_(limits) {}

std::uint32_t Definitions::refuse() noexcept {
  refused_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

// The caller must hold the lock, also for the next function.
std::uint32_t Definitions::name_beyond() {
  refuse();
  if (beyond_.name == 0) {
    names_.push_back(kNameBeyond);
    beyond_.name = static_cast<std::uint32_t>(names_.size());
  }
  return beyond_.name;
}

std::uint32_t Definitions::stack_beyond() {
  const std::uint32_t name = name_beyond();
  if (beyond_.stack == 0) {
    const format::Frame frame{name, name, 0};
    stacks_.emplace_back();
    const auto id = static_cast<std::uint32_t>(stacks_.size());
    try {
      fill(id, {&frame, 1});
    } catch (...) {
      stacks_.pop_back();
      throw;
    }
    beyond_.stack = id;
  }
  return beyond_.stack;
}

Definitions::Beyond Definitions::beyond() noexcept {
  const std::lock_guard lock(mutex_);
  return beyond_;
}

bool Definitions::is_beyond(std::uint32_t tensor) noexcept {
  const std::lock_guard lock(mutex_);
  if (tensor == 0 || tensor > tensors_.size()) return false;
  const std::uint32_t name = tensors_[tensor - 1].name;
  return (beyond_.tensor != 0 && tensor >= beyond_.tensor) || (name != 0 && name == beyond_.name);
}

std::string_view Definitions::keep(std::string_view text) {
  if (text.size() > chunk_left_) {
    const std::size_t bytes = std::max(kChunkBytes, text.size());
    text_chunks_.push_back(std::make_unique<char[]>(bytes));
    chunk_at_ = text_chunks_.back().get();
    chunk_left_ = bytes;
  }
  char* const at = chunk_at_;
  std::memcpy(at, text.data(), text.size());
  chunk_at_ += text.size();
  chunk_left_ -= text.size();
  return {at, text.size()};
}

std::uint32_t Definitions::name(std::string_view text) noexcept try {
  if (text.empty()) return 0;
  text = base::utf8_prefix(text, limits_.longest_name_bytes);
  const std::uint64_t hash = base::hash_bytes(text.data(), text.size());
  const std::lock_guard lock(mutex_);
  const std::uint32_t known =
      name_index_.find(hash, [&](std::uint32_t id) { return names_[id - 1] == text; });
  if (known != 0) return known;
  if (names_.size() >= limits_.names || text.size() > limits_.name_bytes - name_bytes_)
    return name_beyond();
  name_index_.reserve_one();
  names_.push_back(text);
  try {
    names_.back() = keep(text);
  } catch (...) {
    names_.pop_back();
    throw;
  }
  name_bytes_ += text.size();
  const auto id = static_cast<std::uint32_t>(names_.size());
  name_index_.insert(hash, id);
  return id;
} catch (...) {
  return refuse();
}

std::span<const format::Frame> Definitions::frames_of(std::uint32_t stack) const noexcept {
  const Stack& row = stacks_[stack - 1];
  return {frames_.data() + row.first, row.count};
}

// May throw; then the stack is unchanged.
void Definitions::fill(std::uint32_t stack, std::span<const format::Frame> frames) {
  const std::size_t first = frames_.size();
  defined_stacks_.push_back(stack);
  try {
    frames_.insert(frames_.end(), frames.begin(), frames.end());
  } catch (...) {
    defined_stacks_.pop_back();
    throw;
  }
  stacks_[stack - 1] = {first, static_cast<std::uint32_t>(frames.size()), true};
}

std::uint32_t Definitions::stack(std::span<const format::Frame> frames) noexcept try {
  if (frames.empty()) return 0;
  const std::uint64_t hash = hash_frames(frames);
  const std::lock_guard lock(mutex_);
  const std::uint32_t known =
      stack_index_.find(hash, [&](std::uint32_t id) { return same_frames(frames_of(id), frames); });
  if (known != 0) return known;
  if (stacks_.size() >= limits_.stacks || frames.size() + 1 > limits_.frames - frames_.size())
    return stack_beyond();
  stack_index_.reserve_one();
  stacks_.emplace_back();
  const auto id = static_cast<std::uint32_t>(stacks_.size());
  try {
    fill(id, frames);
  } catch (...) {
    stacks_.pop_back();
    throw;
  }
  stack_index_.insert(hash, id);
  return id;
} catch (...) {
  return refuse();
}

std::uint32_t Definitions::reserve_stack() noexcept try {
  const std::lock_guard lock(mutex_);
  if (stacks_.size() >= limits_.stacks) return stack_beyond();
  stacks_.emplace_back();
  return static_cast<std::uint32_t>(stacks_.size());
} catch (...) {
  return refuse();
}

void Definitions::define_stack(std::uint32_t stack, std::span<const format::Frame> frames) noexcept
    try {
  const std::lock_guard lock(mutex_);
  if (stack == 0 || stack > stacks_.size() || stacks_[stack - 1].is_defined) return;
  if (frames.size() > limits_.frames - frames_.size()) {
    refuse();
    return;
  }
  const std::uint64_t hash = hash_frames(frames);
  const std::uint32_t twin =
      stack_index_.find(hash, [&](std::uint32_t id) { return same_frames(frames_of(id), frames); });
  if (twin == 0) stack_index_.reserve_one();
  fill(stack, frames);
  if (twin == 0) stack_index_.insert(hash, stack);
} catch (...) {
  refuse();
}

std::uint32_t Definitions::tensor(const format::Tensor& tensor) noexcept try {
  const std::lock_guard lock(mutex_);
  const std::uint32_t found = find_or_add(tensor, limits_.tensors);
  if (found != 0) return found;
  refuse();
  const std::uint32_t bare = find_or_add({tensor.role, 0, 0, 0}, limits_.tensors + kRoles);
  if (beyond_.tensor == 0) beyond_.tensor = static_cast<std::uint32_t>(limits_.tensors + 1);
  return bare;
} catch (...) {
  return refuse();
}

// Returns 0 if there are already `most` tensors.
std::uint32_t Definitions::find_or_add(const format::Tensor& tensor, std::size_t most) {
  const std::uint64_t hash =
      base::hash_mix(base::hash_u64(std::uint64_t{tensor.name} << 32 | tensor.dtype),
                     base::hash_u64(std::uint64_t{tensor.shape} << 32 | tensor.role) | 1u);
  const std::uint32_t known =
      tensor_index_.find(hash, [&](std::uint32_t id) { return tensors_[id - 1] == tensor; });
  if (known != 0) return known;
  if (tensors_.size() >= most) return 0;
  tensor_index_.reserve_one();
  tensors_.push_back(tensor);
  const auto id = static_cast<std::uint32_t>(tensors_.size());
  tensor_index_.insert(hash, id);
  return id;
}

std::uint8_t Definitions::device(const format::Device& device) noexcept try {
  const std::lock_guard lock(mutex_);
  if (devices_.empty()) devices_.push_back({PLIMSOLL_DEVICE_CPU, 0});
  if (device.type == PLIMSOLL_DEVICE_CPU) return 0;
  for (std::size_t id = 0; id < devices_.size(); ++id) {
    if (devices_[id].type == device.type && devices_[id].ordinal == device.ordinal)
      return static_cast<std::uint8_t>(id);
  }
  if (devices_.size() < kMaxDevices) {
    devices_.push_back(device);
    return static_cast<std::uint8_t>(devices_.size() - 1);
  }
  if (devices_.size() == kMaxDevices) devices_.push_back({PLIMSOLL_DEVICE_OTHER, -1});
  refuse();
  return kOtherDevice;
} catch (...) {
  refuse();
  return kOtherDevice;
}

template <typename Fact, typename IsSame>
void Definitions::define(std::vector<Reported<Fact>>& facts, std::size_t limit, const Fact& fact,
                         IsSame is_same) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(
      facts, [&](const Reported<Fact>& reported) { return is_same(reported.fact); });
  if (known == facts.end() && facts.size() == limit) {
    refuse();
  } else if (known == facts.end()) {
    facts.push_back({fact, facts_ + 1});
    ++facts_;
  } else if (known->fact != fact) {
    *known = {fact, ++facts_};
  }
}

void Definitions::setting(const format::Setting& setting) noexcept try {
  if (setting.name == 0) return;
  define(settings_, limits_.settings, setting,
         [&](const format::Setting& reported) { return reported.name == setting.name; });
} catch (...) {
  refuse();
}

void Definitions::notice(const format::Notice& notice) noexcept try {
  define(notices_, limits_.notices, notice, [&](const format::Notice& reported) {
    return reported.notice == notice.notice && reported.device == notice.device;
  });
} catch (...) {
  refuse();
}

void Definitions::function(const format::Function& function) noexcept try {
  const std::uint64_t hash =
      base::hash_mix(base::hash_u64(std::uint64_t{function.file} << 32 | function.name),
                     base::hash_u64(function.first_line) | 1u);
  const std::lock_guard lock(mutex_);
  const auto is_same = [&](std::uint32_t id) { return functions_[id - 1] == function; };
  if (function_index_.find(hash, is_same) != 0) return;
  if (functions_.size() == limits_.functions) {
    refuse();
    return;
  }
  function_index_.reserve_one();
  functions_.push_back(function);
  function_index_.insert(hash, static_cast<std::uint32_t>(functions_.size()));
} catch (...) {
  refuse();
}

void Definitions::module(const format::Module& module) noexcept try {
  const std::uint64_t hash = base::hash_u64(module.path);
  const std::lock_guard lock(mutex_);
  const std::uint32_t known = module_index_.find(
      hash, [&](std::uint32_t id) { return modules_[id - 1].fact.path == module.path; });
  if (known != 0 && modules_[known - 1].fact == module) return;
  if (known == 0 && modules_.size() == limits_.modules) {
    refuse();
    return;
  }
  if (known == 0) {
    module_index_.reserve_one();
    modules_.emplace_back();
    module_index_.insert(hash, static_cast<std::uint32_t>(modules_.size()));
  }
  modules_[known == 0 ? modules_.size() - 1 : known - 1] = {module, ++facts_};
  modules_changed_at_ = facts_;
} catch (...) {
  refuse();
}

void Definitions::forget_facts_of_recordings() noexcept {
  const std::lock_guard lock(mutex_);
  notices_.clear();
  modules_.clear();
  module_index_ = {};
}

void Definitions::write_new(DefinitionCursor& cursor, format::Encoder& encoder) noexcept {
  const std::lock_guard lock(mutex_);
  for (; cursor.devices < devices_.size(); ++cursor.devices)
    encoder.define_device(static_cast<std::uint8_t>(cursor.devices), devices_[cursor.devices]);
  for (; cursor.names < names_.size(); ++cursor.names)
    encoder.define_name(static_cast<std::uint32_t>(cursor.names + 1), names_[cursor.names]);
  for (; cursor.stacks < defined_stacks_.size(); ++cursor.stacks) {
    const std::uint32_t id = defined_stacks_[cursor.stacks];
    encoder.define_stack(id, frames_of(id));
  }
  for (; cursor.tensors < tensors_.size(); ++cursor.tensors)
    encoder.define_tensor(static_cast<std::uint32_t>(cursor.tensors + 1), tensors_[cursor.tensors]);
  for (; cursor.functions < functions_.size(); ++cursor.functions)
    encoder.function(functions_[cursor.functions]);
  for (const auto& [setting, at] : settings_) {
    if (at > cursor.facts) encoder.setting(setting);
  }
  for (const auto& [notice, at] : notices_) {
    if (at > cursor.facts) encoder.notice(notice);
  }
  const bool has_modules = modules_changed_at_ > cursor.facts;
  for (std::size_t row = 0; has_modules && row < modules_.size(); ++row) {
    if (modules_[row].at > cursor.facts) encoder.module(modules_[row].fact);
  }
  cursor.facts = facts_;
}

std::string_view Definitions::text(std::uint32_t name) noexcept {
  const std::lock_guard lock(mutex_);
  return name != 0 && name <= names_.size() ? names_[name - 1] : std::string_view();
}

std::size_t Definitions::copy_frames(std::uint32_t stack,
                                     std::span<format::Frame> frames) noexcept {
  const std::lock_guard lock(mutex_);
  if (stack == 0 || stack > stacks_.size()) return 0;
  const std::span<const format::Frame> all = frames_of(stack);
  std::copy_n(all.begin(), std::min(all.size(), frames.size()), frames.begin());
  return all.size();
}

std::size_t Definitions::copy_all_frames(std::size_t first,
                                         std::span<format::Frame> frames) noexcept {
  const std::lock_guard lock(mutex_);
  if (first >= frames_.size()) return 0;
  const std::size_t count = std::min(frames.size(), frames_.size() - first);
  std::copy_n(frames_.begin() + static_cast<std::ptrdiff_t>(first), count, frames.begin());
  return count;
}

format::Device Definitions::device_of(std::uint8_t id) noexcept {
  const std::lock_guard lock(mutex_);
  return id < devices_.size() ? devices_[id] : format::Device{};
}

void Definitions::copy_roles(std::vector<std::uint8_t>& roles) {
  const std::lock_guard lock(mutex_);
  roles.reserve(tensors_.size());
  while (roles.size() < tensors_.size()) roles.push_back(tensors_[roles.size()].role);
}

}  // namespace plimsoll::record

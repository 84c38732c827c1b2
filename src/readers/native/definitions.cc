#include "readers/native/definitions.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "base/recorder_names.h"
#include "plimsoll/recorder_c.h"
#include "readers/native/diagnostics.h"

namespace plimsoll::readers::native {
namespace {

using model::DeviceType;

// Ids may exceed the number that the file's bytes allow by this many, because ids may be assigned
// before their definitions are written.
constexpr std::uint64_t kFreeIds = 1 << 12;
// More settings, or more notices per device, are implausible.
constexpr std::size_t kMostSettings = 256, kMostNotices = 256;
// The smallest size of a definition in a file.
constexpr std::uint64_t kNameBytes = 3, kStackBytes = 5, kSiteBytes = 10, kTensorBytes = 7;

}  // namespace

model::Device device_of(const format::Device& device) {
  const DeviceType type = base::device_type_of(device.type);
  if (type == DeviceType::kCpu) return {type, -1};
  return {type, type == DeviceType::kPinnedHost ? -2 : device.ordinal};
}

std::uint64_t Definitions::limit(std::uint64_t least_bytes) const {
  return kFreeIds + end_ / least_bytes;
}

void Definitions::check(bool is_defined) {
  if (!is_defined) diagnostics_.add(kBadDefinition);
}

void Definitions::name(std::uint32_t id, std::string_view text) {
  check(names_.define(id, limit(kNameBytes), builder_.strings().intern(text)));
}

void Definitions::stack(std::uint32_t id, std::span<const format::Frame> frames) {
  const FrameRange range{frames_.size(), static_cast<std::uint32_t>(frames.size())};
  frames_.append(frames);
  check(stacks_.define(id, limit(kStackBytes), range));
}

void Definitions::site(std::uint32_t id, const format::Site& site) {
  check(sites_.define(id, limit(kSiteBytes), site));
}

void Definitions::tensor(std::uint32_t id, const format::Tensor& tensor) {
  check(tensors_.define(id, limit(kTensorBytes), tensor));
}

namespace {

// A later fact of the same kind replaces an earlier one.
template <typename Fact, typename IsSame>
bool put(std::vector<Fact>& facts, std::size_t most, const Fact& fact, IsSame is_same) {
  const auto known = std::ranges::find_if(facts, is_same);
  if (known != facts.end()) {
    *known = fact;
  } else if (facts.size() < most) {
    facts.push_back(fact);
  } else {
    return false;
  }
  return true;
}

const base::DiagnosticKind& kind_of(std::uint8_t notice) {
  switch (notice) {
    case PLIMSOLL_NOTICE_SIZES_CORRECTED:
      return kSizesCorrected;
    case PLIMSOLL_NOTICE_SUMS_UNEXPLAINED:
      return kSumsUnexplained;
    case PLIMSOLL_NOTICE_SIZES_UNVERIFIED:
      return kSizesUnverified;
    case PLIMSOLL_NOTICE_CUDA_ADAPTER_UNAVAILABLE:
      return kCudaAdapterUnavailable;
    case PLIMSOLL_NOTICE_DEVICE_NOT_RECORDED:
      return kDeviceNotRecorded;
    case PLIMSOLL_NOTICE_FAILURES_NOT_PRINTED:
      return kFailuresNotPrinted;
    case PLIMSOLL_NOTICE_NAMES_REFUSED:
      return kNamesRefused;
    case PLIMSOLL_NOTICE_DETAILS_LOST:
      return kDetailsLost;
    case PLIMSOLL_NOTICE_REPORT_FAILED:
      return kReportFailed;
    case PLIMSOLL_NOTICE_CHILDREN_UNRECORDED:
      return kChildrenUnrecorded;
    default:
      return kLaterVersion;
  }
}

}  // namespace

void Definitions::setting(const format::Setting& setting) {
  if (setting.type > format::kTextSetting) return diagnostics_.add(kLaterVersion);
  check(put(settings_, kMostSettings, setting,
            [&](const format::Setting& reported) { return reported.name == setting.name; }));
}

void Definitions::notice(const format::Notice& notice) {
  check(put(notices_, kMostNotices, notice, [&](const format::Notice& reported) {
    return reported.notice == notice.notice && reported.device == notice.device;
  }));
}

void Definitions::report_settings() {
  for (const format::Setting& setting : settings_) {
    model::Setting row{std::string(builder_.strings()[name(setting.name)]), {}};
    switch (setting.type) {
      case format::kBooleanSetting:
        row.value = setting.value != 0;
        break;
      case format::kIntegerSetting:
        row.value = static_cast<std::int64_t>(setting.value);
        break;
      case format::kNumberSetting:
        row.value = std::bit_cast<double>(setting.value);
        break;
      default:
        row.value =
            setting.value > UINT32_MAX
                ? std::string()
                : std::string(builder_.strings()[name(static_cast<std::uint32_t>(setting.value))]);
    }
    builder_.add_setting(std::move(row));
  }
}

void Definitions::source_line(const format::SourceLine& line) {
  source_lines_.push_back(
      {model::StringId{line.file}, line.line, line.hash, std::string(line.text)});
  source_bytes_ += sizeof(model::SourceLine) + line.text.size();
}

void Definitions::report_source() {
  for (const format::Function& each : functions_.span()) {
    builder_.source().add(model::FunctionStart{name(each.file), name(each.name), each.first_line});
  }
  for (model::SourceLine& line : source_lines_) {
    line.file = name(line.file.value);
    builder_.source().add(std::move(line));
  }
  std::map<std::uint32_t, const format::Module*> last;  // by path
  for (const format::Module& module : modules_.span()) last[module.path] = &module;
  for (const auto& [path, module] : last) {
    builder_.add_module({name(path), name(module->type), module->parameter_bytes,
                         (module->state & PLIMSOLL_MODULE_IN_EVAL_MODE) != 0,
                         (module->state & PLIMSOLL_MODULE_CHECKPOINTS) != 0,
                         (module->state & PLIMSOLL_MODULE_ONLY_HOLDS) != 0});
  }
}

void Definitions::report_notices() {
  for (const format::Notice& notice : notices_) {
    std::string example(builder_.strings()[name(notice.text)]);
    const bool is_of_device = notice.notice != PLIMSOLL_NOTICE_CHILDREN_UNRECORDED;
    if (example.empty() && is_of_device) example = to_string(devices_[notice.device]);
    diagnostics_.add(kind_of(notice.notice), notice.count, example);
  }
}

model::StringId Definitions::name(std::uint32_t id) const {
  const model::StringId* const text = names_.find(id);
  return text == nullptr ? model::StringId{} : *text;
}

model::PoolId Definitions::pool(std::uint32_t id) {
  if (id == 0) return {};
  if (const model::PoolId* const known = pools_.find(id)) return *known;
  const model::PoolId pool = read_pool(id);
  pools_.define(id, names_.size(), pool);
  return pool;
}

// A name that is not a pool id becomes a separate pool.
model::PoolId Definitions::read_pool(std::uint32_t id) const {
  const std::string_view text = builder_.strings()[name(id)];
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  model::Pool pool;
  const auto first = std::from_chars(begin, end, pool.first);
  const bool has_dot = first.ec == std::errc{} && first.ptr != end && *first.ptr == '.';
  const auto second = has_dot ? std::from_chars(first.ptr + 1, end, pool.second) : first;
  if (!has_dot || second.ec != std::errc{} || second.ptr != end) pool = {~std::uint64_t{0}, id};
  return builder_.pool(pool);
}

std::size_t Definitions::memory_bytes() const {
  return names_.memory_bytes() + pools_.memory_bytes() + stacks_.memory_bytes() +
         functions_.memory_bytes() + modules_.memory_bytes() + source_bytes_ +
         frames_.memory_bytes() + sites_.memory_bytes() + tensors_.memory_bytes() +
         builder_.strings().memory_bytes();
}

std::vector<model::StackId> Definitions::stack_rows() {
  std::vector<model::StackId> rows(stacks_.size());
  std::vector<model::FrameId> ids;
  for (std::uint32_t id = 1; id < rows.size(); ++id) {
    const FrameRange* const range = stacks_.find(id);
    if (range == nullptr) continue;
    ids.clear();
    for (const format::Frame& frame : frames_.span(range->first, range->count)) {
      model::Frame row;
      row.file = name(frame.file);
      row.function = name(frame.function);
      row.line = frame.line == 0 ? model::kUnknownLine : frame.line;
      ids.push_back(builder_.stacks().intern_frame(row));
    }
    rows[id] = builder_.stacks().intern_stack(ids);
  }
  return rows;
}

std::vector<Place> Definitions::places() {
  const std::vector<model::StackId> stacks = stack_rows();
  std::vector<Place> places(sites_.size());
  for (std::uint32_t id = 0; id < places.size(); ++id) {
    const format::Site* const site = sites_.find(id);
    if (site == nullptr) continue;
    model::Site& row = places[id].site;
    row.layer = name(site->layer);
    row.op = name(site->outer_op);
    row.inner_op = name(site->inner_op);
    row.forward_op = name(site->forward_op);
    if (site->stack < stacks.size()) row.stack = stacks[site->stack];
    row.stream = builder_.stream(site->stream);
    row.pool = pool(site->pool);
    row.phase = base::phase_of(site->phase);
    row.autograd = base::autograd_of(site->autograd);
    places[id].row = builder_.sites().intern(row);
  }
  return places;
}

std::vector<model::TensorId> Definitions::tensor_rows() {
  std::vector<model::TensorId> rows(tensors_.size());
  for (std::uint32_t id = 1; id < rows.size(); ++id) {
    const format::Tensor* const tensor = tensors_.find(id);
    if (tensor == nullptr) continue;
    const model::Tensor row{name(tensor->name), name(tensor->dtype), name(tensor->shape)};
    if (row != model::Tensor{}) rows[id] = builder_.add_tensor(row);
  }
  return rows;
}

}  // namespace plimsoll::readers::native

#include "logs/nvidia_smi_log.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>
#include <utility>

#include "base/timestamps.h"
#include "logs/numbers.h"
#include "sample/names.h"

namespace plimsoll::logs {
namespace {

// Accepted column names, in lower case, letters and digits only.
constexpr std::array<std::string_view, 3> kSizeColumns = {"memoryused", "memoryfree",
                                                          "memorytotal"};
enum : std::size_t { kUsed, kFree, kTotal };
constexpr std::array<std::array<std::string_view, 4>, 5> kIdNames = {{
    {"index", "gpuindex"},
    {"gpu", "gpuid", "id", "device"},
    {"uuid", "gpuuuid"},
    {"pcibusid", "gpubusid", "busid"},
    {"name", "gpuname"},
}};

constexpr std::size_t kMostRows = 4'000'000;
constexpr std::size_t kMostSmiDevices = 256;
constexpr std::size_t kMostFields = 256;
constexpr std::size_t kMostLinesOfARow = 8;
// Rows of one round follow each other directly.
constexpr std::int64_t kRoundNs = 50'000'000;

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr double kKib = 1024.0;
constexpr std::array<Unit, 8> kUnits = {{{"MiB", kKib* kKib},
                                         {"MB", kKib* kKib},  // MiB in old versions
                                         {"GiB", kKib* kKib* kKib},
                                         {"GB", kKib* kKib* kKib},
                                         {"KiB", kKib},
                                         {"KB", kKib},
                                         {"kB", kKib},
                                         {"B", 1}}};

// "  \"2 MiB\" , 5" -> {"2 MiB", "5"}; nullopt if a quote is left open.
std::optional<std::vector<std::string>> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (const char letter : line) {
    if (letter == '"') {
      is_quoted = !is_quoted;
    } else if (letter == ',' && !is_quoted) {
      if (fields.size() == kMostFields) return fields;
      fields.emplace_back();
    } else {
      fields.back() += letter == '\n' ? ' ' : letter;
    }
  }
  if (is_quoted) return std::nullopt;
  for (std::string& field : fields) field = std::string(trimmed(field));
  return fields;
}

// "memory.used [MiB]" -> "memoryused"
std::string plain(std::string_view field) {
  std::string name;
  for (const char letter : field.substr(0, field.find('['))) {
    const auto value = static_cast<unsigned char>(letter);
    if (std::isalnum(value) != 0) name += static_cast<char>(std::tolower(value));
  }
  return name;
}

// "2 MiB"; a bare number is MiB, as nvidia-smi counts.
std::optional<std::uint64_t> size_in(std::string_view field) {
  for (const Unit& unit : kUnits) {
    if (!field.ends_with(unit.name)) continue;
    field.remove_suffix(unit.name.size());
    return bytes_of(number_in<double>(trimmed(field)), unit.bytes);
  }
  return bytes_of(number_in<double>(field), kKib * kKib);
}

// "[N/A]" and similar mean unknown; a number that is not a size is damage.
bool is_damaged_size(std::string_view field) {
  const std::string_view number = field.substr(0, field.find(' '));
  return number_in<double>(number).has_value() && !size_in(field);
}

bool is_size_with_unit(std::string_view field) {
  return !field.empty() && field.ends_with("iB") && size_in(field).has_value();
}

std::int64_t time_in(std::string_view field) {
  constexpr double kEarliest = 1e9;  // 2001, as seconds since 1970
  constexpr double kLatest = 9e9;
  if (const auto time = base::parse_time(field)) return *time;
  const auto seconds = number_in<double>(field);
  if (!seconds || !(*seconds >= kEarliest && *seconds < kLatest)) return 0;
  return static_cast<std::int64_t>(*seconds * 1e9);
}

// Whether the values of a column differ, and their sum with another column.
struct Spread {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most = 0;
  void add(std::uint64_t value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool varies() const { return most > least; }
  std::uint64_t width() const { return varies() ? most - least : 0; }
};

}  // namespace

bool NvidiaSmiLog::knows(std::string_view line) {
  const auto fields = fields_of(line);
  if (!fields) return false;
  return columns_of_header(*fields).has_value() || std::ranges::any_of(*fields, is_size_with_unit);
}

bool NvidiaSmiLog::is_table(std::string_view line) { return line.starts_with("| NVIDIA-SMI "); }

std::optional<NvidiaSmiLog::Columns> NvidiaSmiLog::columns_of_header(
    const std::vector<std::string>& fields) {
  Columns columns;
  columns.width = fields.size();
  std::size_t known = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string name = plain(fields[i]);
    if (name == "timestamp") columns.time = i;
    for (std::size_t size = 0; size < kSizeColumns.size(); ++size) {
      if (!name.starts_with(kSizeColumns[size])) continue;
      columns.sizes[size] = i;
      ++known;
    }
    for (std::size_t id = 0; id < kIdColumns; ++id) {
      const auto& names = kIdNames[id];
      if (!name.empty() && std::ranges::find(names, name) != names.end()) columns.ids[id] = i;
    }
    // Columns that no other kind of log has.
    if (name.starts_with("memoryreserved") || name.starts_with("utilization") ||
        name.starts_with("temperaturegpu") || name.starts_with("powerdraw")) {
      ++known;
    }
  }
  if (known == 0) return std::nullopt;
  return columns;
}

std::optional<NvidiaSmiLog::Columns> NvidiaSmiLog::columns_of_row(
    const std::vector<std::string>& fields) {
  Columns columns;
  columns.width = fields.size();
  std::size_t sizes = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (is_size_with_unit(fields[i])) {
      if (sizes < kMostSizes) columns.sizes[sizes++] = i;
    } else if (sizes == 0 && !columns.time && time_in(fields[i]) != 0) {
      columns.time = i;
    } else if (sizes == 0 && i <= 1 && !columns.ids[0] && number_in<unsigned>(fields[i])) {
      columns.ids[0] = i;
    }
  }
  if (sizes == 0) return std::nullopt;
  return columns;
}

void NvidiaSmiLog::line(std::string_view line) {
  if (open_lines_ == 0 && trimmed(line).empty()) return;
  open_row_ += line;
  ++open_lines_;
  const auto fields = fields_of(open_row_);
  if (!fields && open_lines_ < kMostLinesOfARow) {
    open_row_ += '\n';
    return;
  }
  if (fields) {
    take(*fields);
  } else {
    unread_lines_ += open_lines_;
  }
  open_row_.clear();
  open_lines_ = 0;
}

void NvidiaSmiLog::take(const std::vector<std::string>& fields) {
  if (auto header = columns_of_header(fields)) {
    if (!has_header_) rows_.clear();  // earlier rows have no known columns
    columns_ = *std::move(header);
    has_header_ = true;
    return;
  }
  if (!columns_) columns_ = columns_of_row(fields);
  if (!columns_ || !take_row(fields)) ++unread_lines_;
}

bool NvidiaSmiLog::take_row(const std::vector<std::string>& fields) {
  if (fields.size() != columns_->width || rows_.size() == kMostRows) return false;
  Row row;
  if (columns_->time) row.time_ns = time_in(fields[*columns_->time]);
  bool has_size = false;
  for (std::size_t i = 0; i < kMostSizes; ++i) {
    if (!columns_->sizes[i]) continue;
    const std::string& field = fields[*columns_->sizes[i]];
    if (is_damaged_size(field)) return false;
    row.sizes[i] = size_in(field);
    has_size = has_size || row.sizes[i].has_value();
  }
  Id id;
  bool has_id = false;
  for (std::size_t i = 0; i < kIdColumns; ++i) {
    if (columns_->ids[i]) id[i] = fields[*columns_->ids[i]];
    has_id = has_id || columns_->ids[i].has_value();
  }
  if (!has_id) {
    const bool has_fraction =
        columns_->time && fields[*columns_->time].find('.') != std::string::npos;
    const bool goes_on = has_fraction && !rows_.empty() &&
                         row.time_ns - rows_.back().time_ns < kRoundNs &&
                         row.time_ns >= rows_.back().time_ns;
    position_ = goes_on ? position_ + 1 : 0;
    id[0] = std::to_string(position_);
  }
  const auto device = device_of(std::move(id));
  if (!device || (!has_size && !has_header_)) return false;
  row.device = *device;
  rows_.push_back(row);
  return true;
}

std::optional<std::uint32_t> NvidiaSmiLog::device_of(Id id) {
  const auto found = ids_.find(id);
  if (found != ids_.end()) return found->second;
  if (ids_.size() == kMostSmiDevices) return std::nullopt;
  const auto number = static_cast<std::uint32_t>(ids_.size());
  ids_.emplace(std::move(id), number);
  return number;
}

// Finds the roles of the columns without a header. A constant column is the total. If only the sum
// of two columns is constant, they are used and free.
NvidiaSmiLog::Roles NvidiaSmiLog::roles() const {
  const auto there = [this](std::size_t i) {
    return std::ranges::any_of(rows_, [i](const Row& row) { return row.sizes[i].has_value(); });
  };
  Roles roles;
  if (has_header_) {
    if (there(kUsed)) roles.used = kUsed;
    if (there(kFree)) roles.free = kFree;
    if (there(kTotal)) roles.total = kTotal;
    return roles;
  }
  if (there(0)) roles.used = 0;
  if (!there(1)) return roles;
  std::array<Spread, kMostSizes> alone;
  Spread sum;
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < kMostSizes; ++i) {
      if (row.sizes[i]) alone[i].add(*row.sizes[i]);
    }
    if (row.sizes[0] && row.sizes[1]) sum.add(*row.sizes[0] + *row.sizes[1]);
  }
  if (there(2)) {  // the largest is the total; of the others, used comes before free
    if (alone[0].least >= std::max(alone[1].most, alone[2].most)) return {1, 2, 0};
    if (alone[1].least >= std::max(alone[0].most, alone[2].most)) return {0, 2, 1};
    return {0, 1, 2};
  }
  // The driver reserves a little for itself, so the sum is not exact.
  const std::uint64_t narrower = std::min(alone[0].width(), alone[1].width());
  if (narrower > 0 && sum.width() <= narrower / 10) return {0, 1, std::nullopt};
  if (alone[1].varies() && !alone[0].varies()) return {1, std::nullopt, 0};
  if (alone[0].least >= alone[1].most) return {1, std::nullopt, 0};
  roles.total = 1;
  return roles;
}

// Names the devices by the column with the most distinct values, or the first such column.
std::vector<std::string> NvidiaSmiLog::device_names() const {
  std::size_t best = 0;
  std::size_t most = 0;
  for (std::size_t column = 0; column < kIdColumns; ++column) {
    std::set<std::string_view> values;
    for (const auto& [id, number] : ids_) {
      if (!id[column].empty()) values.insert(id[column]);
    }
    if (values.size() <= most) continue;
    best = column;
    most = values.size();
  }
  std::vector<std::string> names(ids_.size());
  for (const auto& [id, number] : ids_) {
    const bool is_number = number_in<unsigned>(id[best]).has_value();
    names[number] = is_number ? "gpu:" + id[best] : sample::one_line(id[best]);
    if (names[number].empty()) names[number] = "gpu";
  }
  return names;
}

Status NvidiaSmiLog::finish(const std::string& path, const Sink& sink) {
  unread_lines_ += std::exchange(open_lines_, 0);
  const Roles roles = this->roles();
  if (!roles.used && !(roles.free && roles.total)) {
    return make_error(
        ErrorCode::kUnsupported,
        path +
            " is an nvidia-smi log without the memory in use: write one with nvidia-smi "
            "--query-gpu=timestamp,index,memory.used,memory.total --format=csv -l 5");
  }
  const std::vector<std::string> names = device_names();
  MemorySample round;
  const auto end_round = [&] {
    if (!round.devices.empty()) sink(round);
    round.devices.clear();
    ++round.iteration;
  };
  for (const Row& row : rows_) {
    DeviceMemory device;
    device.name = names[row.device];
    const auto at = [&](const std::optional<std::size_t>& role) {
      return role ? row.sizes[*role] : std::nullopt;
    };
    device.used_bytes = at(roles.used);
    device.total_bytes = at(roles.total);
    const auto free = at(roles.free);
    if (!device.total_bytes && device.used_bytes && free) {
      device.total_bytes = *device.used_bytes + *free;
    }
    if (!device.used_bytes && device.total_bytes && free && *free <= *device.total_bytes) {
      device.used_bytes = *device.total_bytes - *free;
    }
    const auto same = std::ranges::find(round.devices, device.name, &DeviceMemory::name);
    if (same != round.devices.end()) end_round();
    if (round.devices.empty()) round.time_ns = row.time_ns;
    round.devices.push_back(std::move(device));
  }
  end_round();
  return {};
}

}  // namespace plimsoll::logs

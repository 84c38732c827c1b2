// Resolves the ids of a trace file. Definitions may come in any order and may be missing, so
// nothing is resolved until the whole file has been read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/column.h"
#include "base/diagnostics.h"
#include "format/records.h"
#include "model/trace_builder.h"

namespace plimsoll::readers::native {

// Where memory was allocated, as rows of the model.
struct Place {
  model::Site site;
  model::SiteId row;              // of `site`
  bool is_communication = false;  // see model/communication.h
};

model::Device device_of(const format::Device& device);

// Rows by id. Memory is bounded by the file's size, because ids count from 0.
template <typename T>
class IdTable {
 public:
  // Returns false if the id is `limit` or beyond. Later definitions of the same id are skipped.
  bool define(std::uint32_t id, std::uint64_t limit, const T& value) {
    if (id >= limit) return false;
    if (id >= rows_.size()) {
      rows_.resize(std::size_t{id} + 1);
      is_defined_.resize(std::size_t{id} + 1);
    }
    if (is_defined_[id]) return true;
    rows_[id] = value;
    is_defined_[id] = true;
    return true;
  }
  const T* find(std::uint32_t id) const {
    return id < rows_.size() && is_defined_[id] ? &rows_[id] : nullptr;
  }
  std::size_t size() const { return rows_.size(); }
  std::size_t memory_bytes() const { return rows_.capacity() * (sizeof(T) + 1); }

 private:
  base::Column<T> rows_;
  base::Column<bool> is_defined_;
};

class Definitions {
 public:
  Definitions(model::TraceBuilder& builder, base::Diagnostics& diagnostics)
      : builder_(builder), diagnostics_(diagnostics) {}

  // Sets the file offset of the definitions that follow: the bytes before it bound their ids.
  void set_end(std::uint64_t end) { end_ = end; }
  void name(std::uint32_t id, std::string_view text);
  void stack(std::uint32_t id, std::span<const format::Frame> frames);
  void site(std::uint32_t id, const format::Site& site);
  void tensor(std::uint32_t id, const format::Tensor& tensor);
  void device(std::uint8_t id, model::Device device) { devices_[id] = device; }
  void setting(const format::Setting& setting);
  void notice(const format::Notice& notice);
  void function(const format::Function& function) { functions_.push_back(function); }
  void module(const format::Module& module) { modules_.push_back(module); }
  void source_line(const format::SourceLine& line);

  // May be called while reading.
  const format::Site* find_site(std::uint32_t id) const { return sites_.find(id); }
  const format::Tensor* find_tensor(std::uint32_t id) const { return tensors_.find(id); }
  model::Device device(std::uint8_t id) const { return devices_[id]; }
  model::StringId name(std::uint32_t id) const;
  model::PoolId pool(std::uint32_t name);  // named "FIRST.SECOND"; 0: the default pools
  std::size_t memory_bytes() const;

  // After the whole file has been read:
  std::vector<Place> places();                 // by site id; their sites are the model's
  std::vector<model::TensorId> tensor_rows();  // by tensor id
  void report_settings();                      // to the builder, like the next
  void report_source();
  void report_notices();  // to the diagnostics

 private:
  struct FrameRange {
    std::uint64_t first = 0;
    std::uint32_t count = 0;
  };
  std::uint64_t limit(std::uint64_t least_bytes) const;
  void check(bool is_defined);
  model::PoolId read_pool(std::uint32_t name) const;
  std::vector<model::StackId> stack_rows();

  static constexpr std::array<model::Device, 256> unknown_devices();

  model::TraceBuilder& builder_;
  base::Diagnostics& diagnostics_;
  std::uint64_t end_ = 0;
  IdTable<model::StringId> names_;
  IdTable<model::PoolId> pools_;  // by name; only those requested
  IdTable<FrameRange> stacks_;
  base::Column<format::Frame> frames_;
  IdTable<format::Site> sites_;
  IdTable<format::Tensor> tensors_;
  std::array<model::Device, 256> devices_ = unknown_devices();
  std::vector<format::Setting> settings_;
  std::vector<format::Notice> notices_;
  base::Column<format::Function> functions_;
  base::Column<format::Module> modules_;
  std::vector<model::SourceLine> source_lines_;  // their files are ids of the file
  std::size_t source_bytes_ = 0;
};

// The CPU is number 0; a number without a definition is a separate device.
constexpr std::array<model::Device, 256> Definitions::unknown_devices() {
  std::array<model::Device, 256> devices{};
  for (std::int32_t id = 0; id < 256; ++id) {
    devices[static_cast<std::size_t>(id)] = {model::DeviceType::kOther, id};
  }
  devices[0] = {model::DeviceType::kCpu, -1};
  return devices;
}

}  // namespace plimsoll::readers::native

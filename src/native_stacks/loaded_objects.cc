#include "native_stacks/loaded_objects.h"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <exception>
#include <ranges>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "native_stacks/library_code.h"
#include "native_stacks/seccomp_filters.h"

namespace plimsoll::native_stacks {
namespace {

// Only a note in a segment that is loaded from the file can be read from memory.
bool is_in_memory(std::span<const ElfW(Phdr)> segments, const ElfW(Phdr) & note) {
  return std::ranges::any_of(segments, [&](const ElfW(Phdr) & segment) {
    const std::uint64_t offset = note.p_vaddr - segment.p_vaddr;
    return segment.p_type == PT_LOAD && (segment.p_flags & PF_R) != 0 &&
           note.p_vaddr >= segment.p_vaddr && offset <= segment.p_filesz &&
           note.p_filesz <= segment.p_filesz - offset;
  });
}

std::vector<LoadedNote> copied_notes(const dl_phdr_info& info) {
  constexpr std::size_t kMostBytes = 4096;
  std::vector<LoadedNote> notes;
  const std::span segments(info.dlpi_phdr, info.dlpi_phnum);
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMostBytes) continue;
    if (!is_in_memory(segments, segment)) continue;
    const auto* const begin = std::bit_cast<const std::byte*>(info.dlpi_addr + segment.p_vaddr);
    notes.push_back({segment.p_offset, {begin, begin + segment.p_filesz}});
  }
  return notes;
}

bool has_build_id(const LoadedNote& note) {
  std::span<const std::byte> rest(note.bytes);
  const auto padded = [](std::size_t size) { return (size + 3) & ~std::size_t{3}; };
  for (ElfW(Nhdr) header{}; rest.size() >= sizeof header;) {
    std::memcpy(&header, rest.data(), sizeof header);
    rest = rest.subspan(sizeof header);
    const std::size_t name_bytes = padded(header.n_namesz);
    const std::size_t bytes = name_bytes + padded(header.n_descsz);
    if (bytes > rest.size()) return false;
    constexpr std::string_view kName("GNU\0", 4);
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == kName.size() &&
        std::memcmp(rest.data(), kName.data(), kName.size()) == 0) {
      return true;
    }
    rest = rest.subspan(bytes);
  }
  return false;
}

std::vector<std::uint64_t> version_of_file(const std::string& path) {
  const int error = errno;
  struct stat status{};
  const bool is_known = ::stat(path.c_str(), &status) == 0;
  errno = error;
  if (!is_known) return {};
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_mtim.tv_sec),
          static_cast<std::uint64_t>(status.st_mtim.tv_nsec)};
}

LoadedObjects::Version version_of(const dl_phdr_info& info) {
  return {.loads = info.dlpi_adds, .unloads = info.dlpi_subs};
}

int note_version(dl_phdr_info* info, std::size_t /*size*/, void* to) {
  *static_cast<LoadedObjects::Version*>(to) = version_of(*info);
  return 1;
}

LoadedObjects::Version current_version() noexcept {
  LoadedObjects::Version version;
  ::dl_iterate_phdr(note_version, &version);
  return version;
}

struct FoundObjects {
  std::vector<LoadedObject> objects;
  LoadedObjects::Version version;
  bool is_complete = true;
};

// No exception may pass through the loader.
int copy_object(dl_phdr_info* info, std::size_t /*size*/, void* to) try {
  FoundObjects& found = *static_cast<FoundObjects*>(to);
  found.version = version_of(*info);
  LoadedObject& object = found.objects.emplace_back();
  object.base = info->dlpi_addr;
  object.path = info->dlpi_name;
  object.is_library = is_library_object(object.path);
  object.segments.assign(info->dlpi_phdr, info->dlpi_phdr + info->dlpi_phnum);
  object.notes = copied_notes(*info);
  return 0;
} catch (const std::exception&) {
  static_cast<FoundObjects*>(to)->is_complete = false;
  return 1;
}

auto identity(const LoadedObject& object) {
  return std::tie(object.path, object.notes, object.file_version);
}

bool has_same_segments(const LoadedObject& left, const LoadedObject& right) {
  const std::span bytes = std::as_bytes(std::span(left.segments));
  return left.segments.size() == right.segments.size() &&
         std::memcmp(bytes.data(), right.segments.data(), bytes.size()) == 0;
}

}  // namespace

std::uint64_t LoadedObjects::unloads() noexcept { return current_version().unloads; }

void LoadedObjects::refresh() {
  if (current_version() == version_) return;
  FoundObjects found;
  ::dl_iterate_phdr(copy_object, &found);
  if (!found.is_complete) throw std::runtime_error("the loaded objects do not fit into memory");
  std::vector<Range> ranges;
  for (LoadedObject& each : found.objects) {
    if (!each.is_lasting() && !std::ranges::any_of(each.notes, has_build_id) &&
        !has_added_seccomp_filter()) {
      each.file_version = version_of_file(each.path);
    }
    const std::uintptr_t base = each.base;
    const LoadedObject& object = known(std::move(each));
    for (const ElfW(Phdr) & segment : object.segments) {
      if (segment.p_type != PT_LOAD) continue;
      const std::uintptr_t begin = base + segment.p_vaddr;
      ranges.push_back({begin, begin + segment.p_memsz, &object, base});
    }
  }
  std::ranges::sort(ranges, {}, &Range::begin);
  ranges_ = std::move(ranges);
  version_ = found.version;
}

const LoadedObject& LoadedObjects::known(LoadedObject&& found) {
  for (const auto& object : objects_) {
    if (identity(*object) == identity(found) && has_same_segments(*object, found)) return *object;
  }
  found.number = static_cast<std::uint32_t>(objects_.size());
  return *objects_.emplace_back(std::make_unique<const LoadedObject>(std::move(found)));
}

CodeAddress LoadedObjects::at(std::uintptr_t address) const noexcept {
  const auto after = std::ranges::upper_bound(ranges_, address, {}, &Range::begin);
  if (after == ranges_.begin()) return {.object = nullptr, .address = address};
  const Range& range = *std::prev(after);
  if (address >= range.end) return {.object = nullptr, .address = address};
  return {.object = range.object, .address = address - range.base + range.object->base};
}

}  // namespace plimsoll::native_stacks

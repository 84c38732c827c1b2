// Reads the small text files of /proc and /sys, whole, in their current state. Tests pass a
// different root to simulate a machine. Threads of the recorder and of monitors read them too, so
// that no descriptor is used or closed that the program has since closed and opened for itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::probes {

// The file's text, truncated at 64 KiB; nullopt if it is absent or may not be read.
std::optional<std::string> read_system_file(const std::string& path);

// The names in a folder without those that start with a dot; none if it cannot be read.
std::vector<std::string> list_system_folder(const std::string& path);

// "  12345\n" -> 12345; nullopt for anything but digits between whitespace ("max", "-1").
std::optional<std::uint64_t> to_number(std::string_view text);
std::optional<std::uint64_t> read_number(const std::string& path);

// The number after `key` at the beginning of a line: "VmRSS:\t 123 kB" or "inactive_file 123".
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key);
// The same for a line in kB, converted to bytes.
std::optional<std::uint64_t> bytes_after(std::string_view text, std::string_view key);

// Calls `use` with each line, without its newline.
template <typename Use>
void for_each_line(std::string_view text, const Use& use) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    use(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace plimsoll::probes

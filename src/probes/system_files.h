// The small text files in which Linux tells of itself (/proc, /sys): read whole, as they are now.
// Every path may be put under another root, which is how tests make up a machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::probes {

// The file's text, cut at 64 KiB; nullopt where it is not there or may not be read.
std::optional<std::string> read_system_file(const std::string& path);

// "  12345\n" -> 12345; nullopt for anything but digits between white space ("max", "-1").
std::optional<std::uint64_t> to_number(std::string_view text);
std::optional<std::uint64_t> read_number(const std::string& path);

// The number behind `key` at the beginning of a line: "VmRSS:\t 123 kB" or "inactive_file 123".
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key);
// The same of a line in kB, as bytes.
std::optional<std::uint64_t> bytes_after(std::string_view text, std::string_view key);

// Calls `use` with each line, without its end.
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

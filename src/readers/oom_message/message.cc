#include "readers/oom_message/message.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>
#include <utility>

#include "readers/oom_message/place.h"
#include "readers/oom_message/search.h"
#include "readers/oom_message/traceback.h"

namespace plimsoll::readers::oom_message {
namespace {

// Every message contains one of these: "CUDA out of memory. Tried to allocate 2.00 GiB", or for the
// CPU "can't allocate memory: you tried to allocate 4096 bytes" (on Windows "not enough memory:
// …").
constexpr std::string_view kGpuStart = "out of memory";
constexpr std::string_view kCpuStart = "memory: you tried to allocate ";
// Of CUDAMallocAsyncAllocator.cpp (backend:cudaMallocAsync), which puts each number on a line.
constexpr std::string_view kAsyncStart = " would exceed allowed memory. (out of memory)";
// The longest message lists every process of the GPU.
constexpr std::size_t kMostMessageBytes = 16 << 10;

std::optional<std::uint64_t> size_after(std::string_view text, std::string_view phrase) {
  const auto rest = after(text, phrase);
  return rest ? size_at_start(*rest) : std::nullopt;
}

// The size that ends where `phrase` begins: "1.05 GiB" of "1.05 GiB free;".
std::optional<std::uint64_t> size_before(std::string_view text, std::string_view phrase) {
  const std::size_t at = text.find(phrase);
  if (at == text.npos) return std::nullopt;
  std::size_t begin = at;
  const auto skip = [&](auto&& belongs) {
    while (begin > 0 && belongs(text[begin - 1])) --begin;
  };
  skip([](char c) { return c == ' '; });
  skip([](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  skip([](char c) { return c == ' '; });
  skip([](char c) { return is_digit(c) || c == '.' || c == ','; });  // "1,05" is no number
  return size_at_start(text.substr(begin));
}

// The word before "out of memory": "CUDA out of memory", "MPS backend out of memory".
std::pair<std::string_view, model::DeviceType> backend_of(std::string_view before) {
  constexpr std::array<std::pair<std::string_view, model::DeviceType>, 5> kNames{{
      {"HIP ", model::DeviceType::kHip},
      {"XPU ", model::DeviceType::kXpu},
      {"NPU ", model::DeviceType::kNpu},
      {"MPS backend ", model::DeviceType::kMps},
      {"CUDA ", model::DeviceType::kCuda},
  }};
  for (const auto& named : kNames) {
    if (before.ends_with(named.first)) return named;
  }
  return {{}, model::DeviceType::kCuda};
}

// Where the sentence begins whose phrase `rest` begins with.
std::size_t start_of(std::string_view before, std::string_view rest) {
  if (rest.starts_with(kAsyncStart)) {
    return std::min(before.rfind("Allocation on device"), before.size());
  }
  if (!rest.starts_with(kCpuStart)) return before.size() - backend_of(before).first.size();
  for (const std::string_view start : {"can't allocate ", "not enough ", "DefaultCPUAllocator: "}) {
    if (before.ends_with(start)) before.remove_suffix(start.size());
  }
  return before.size();
}

std::int32_t ordinal_of(std::string_view text) {
  constexpr std::int64_t kMostDevices = 4096;
  for (const std::string_view name : {"GPU ", "NPU ", "XPU "}) {
    const auto number = number_after(text, name);
    if (number && *number >= 0 && *number < kMostDevices) return static_cast<std::int32_t>(*number);
  }
  return 0;
}

std::vector<base::DeviceProcess> processes_in(std::string_view text) {
  constexpr std::size_t kMostProcesses = 64;
  std::vector<base::DeviceProcess> processes;
  for (auto rest = after(text, "Process "); rest && processes.size() < kMostProcesses;
       rest = after(*rest, "Process ")) {
    base::DeviceProcess process;
    const auto parsed = std::from_chars(rest->data(), rest->data() + rest->size(), process.pid);
    if (parsed.ec != std::errc{}) continue;
    const std::string_view tail(parsed.ptr, rest->data() + rest->size());
    constexpr std::string_view kHas = " has ";
    if (!tail.starts_with(kHas)) continue;
    process.used_bytes = size_at_start(tail.substr(kHas.size()));
    if (process.used_bytes) processes.push_back(std::move(process));
  }
  return processes;
}

// The marks of a comment or quotation before the message's first line: "#" of "# RuntimeError: ".
std::string_view quotation_of(std::string_view before) {
  std::string_view line = before.substr(before.rfind('\n') + 1);
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
  const std::string_view marks = line.substr(0, line.find_first_not_of("#>| \t"));
  return marks.substr(0, marks.find_last_not_of(" \t") + 1);
}

// Joins lines that a terminal has wrapped, or that rich has put into a box. `quotation`: marks that
// lines may begin with.
std::string unwrapped(std::string_view text, std::string_view quotation) {
  constexpr std::string_view kBoxBar = "\xE2\x94\x82";
  std::string joined;
  joined.reserve(text.size());
  while (!text.empty()) {
    if (!quotation.empty() && text.front() == '\n') {
      text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\n")));
      if (text.starts_with(quotation)) text.remove_prefix(quotation.size());
      if (!joined.ends_with(' ')) joined += ' ';
      continue;
    }
    const bool is_bar = text.starts_with(kBoxBar);
    if (is_bar || std::string_view(" \t\r\n|").find(text.front()) != text.npos) {
      if (!joined.ends_with(' ')) joined += ' ';
      text.remove_prefix(is_bar ? kBoxBar.size() : 1);
    } else {
      joined += text.front();
      text.remove_prefix(1);
    }
  }
  return joined;
}

template <typename... Sizes>
std::optional<std::uint64_t> first_of(Sizes... sizes) {
  std::optional<std::uint64_t> known;
  ((known = known ? known : sizes), ...);
  return known;
}

// The figure of a line such as "Currently allocated     : 9.43 GiB".
std::optional<std::uint64_t> figure_of(std::string_view text, std::string_view name) {
  auto rest = after(text, name);
  if (!rest) return std::nullopt;
  rest->remove_prefix(std::min(rest->size(), rest->find_first_not_of(" \t")));
  if (!rest->starts_with(':')) return std::nullopt;
  rest->remove_prefix(1);
  rest->remove_prefix(std::min(rest->size(), rest->find_first_not_of(" \t")));
  return size_at_start(*rest);
}

std::optional<model::OomMessage> parse_async(std::string_view before, std::string_view wrapped) {
  const std::string text = unwrapped(wrapped, {});
  const auto requested = figure_of(text, "Requested");
  if (!requested) return std::nullopt;
  model::OomMessage message;
  constexpr std::string_view kDevice = "device ";
  const std::size_t device = before.rfind(kDevice);
  const auto ordinal =
      device == before.npos ? std::nullopt : number_after(before.substr(device), kDevice);
  constexpr std::int64_t kMostDevices = 4096;
  message.device = {model::DeviceType::kCuda, 0};
  if (ordinal && *ordinal >= 0 && *ordinal < kMostDevices) {
    message.device.ordinal = static_cast<std::int32_t>(*ordinal);
  }
  message.requested_bytes = *requested;
  message.allocated_bytes = figure_of(text, "Currently allocated");
  message.total_bytes = figure_of(text, "Device limit");
  message.free_bytes = figure_of(text, "Free (according to CUDA)");
  // Without a limit, PyTorch prints one of 2^64 - 1 bytes.
  const auto limit = figure_of(text, "PyTorch limit (set by user-supplied memory fraction)");
  if (limit && message.total_bytes && *limit < *message.total_bytes) message.limit_bytes = limit;
  return message;
}

std::optional<model::OomMessage> parse(std::string_view before, std::string_view wrapped) {
  const std::string text = unwrapped(wrapped, quotation_of(before));
  const auto requested = size_after(text, "ried to allocate ");
  if (!requested) return std::nullopt;
  model::OomMessage message;
  message.requested_bytes = *requested;
  message.device = text.starts_with(kCpuStart)
                       ? model::Device{model::DeviceType::kCpu, -1}
                       : model::Device{backend_of(before).second, ordinal_of(text)};
  // PyTorch 2.0 and 2.1 spell it "capacty".
  message.total_bytes =
      first_of(size_after(text, "total capacity of "), size_after(text, "total capacty of "),
               size_before(text, " total capacity"));
  message.free_bytes = first_of(size_after(text, " of which "), size_before(text, " free;"));
  message.limit_bytes = first_of(size_before(text, " allowed;"), size_after(text, "max allowed: "));
  message.process_bytes = size_after(text, "this process has ");
  message.processes = processes_in(text);
  message.private_pool_bytes = size_before(text, " allocated in private pools");
  message.allocated_bytes = first_of(size_after(text, "Of the allocated memory "),
                                     size_before(text, " already allocated"));
  // For MPS, "allocated" are the heaps of PyTorch's allocator, whether tensors use them or not.
  message.reserved_bytes =
      first_of(size_before(text, " reserved in total by"), size_after(text, "MPS allocated: "));
  // PyTorch 1.3 and earlier print as cached only what no tensor uses, as newer versions do in
  // words.
  const auto unused = first_of(size_before(text, " is reserved by PyTorch but unallocated"),
                               size_before(text, " cached)"));
  if (unused && message.allocated_bytes)
    message.reserved_bytes = *message.allocated_bytes + *unused;
  const auto other = size_after(text, "other allocations: ");
  if (other && message.reserved_bytes) message.process_bytes = *message.reserved_bytes + *other;
  return message;
}

// Finds the starts of messages in order. Each phrase is searched once over the whole text.
class Starts {
 public:
  explicit Starts(std::string_view text) : text_(text) {}

  // npos after the last.
  std::size_t next() {
    const std::size_t found = std::min({gpu_, cpu_, async_});
    if (found == text_.npos) return found;
    if (gpu_ == found) gpu_ = text_.find(kGpuStart, found + 1);
    if (cpu_ == found) cpu_ = text_.find(kCpuStart, found + 1);
    if (async_ == found) {
      async_ = text_.find(kAsyncStart, found + 1);
      gpu_ = text_.find(kGpuStart, found + kAsyncStart.size());  // its own words
    }
    return found;
  }

 private:
  std::string_view text_;
  std::size_t gpu_ = text_.find(kGpuStart);
  std::size_t cpu_ = text_.find(kCpuStart);
  std::size_t async_ = text_.find(kAsyncStart);
};

// Calls visit(place of its phrase; whether it is quoted; message) for each message in order.
template <typename Visit>
void for_each_message(std::string_view text, const Visit& visit) {
  Starts starts(text);
  for (std::size_t next = starts.next(); next != text.npos;) {
    const std::size_t at = std::exchange(next, starts.next());
    const std::string_view rest =
        text.substr(at, std::min(kMostMessageBytes, std::min(next, text.size()) - at));
    const std::string_view before = text.substr(at - std::min(at, kLongestTracebackBytes),
                                                std::min(at, kLongestTracebackBytes));
    const bool is_async = rest.starts_with(kAsyncStart);
    auto message = is_async ? parse_async(before, rest) : parse(text.substr(0, at), rest);
    if (!message) continue;
    visit(at, !is_printed(before, start_of(before, rest), Figures::kSome), *std::move(message));
  }
}

// Messages state no platform, but paths and the CPU allocator's wording differ.
bool is_from_windows(std::string_view before, const std::vector<CodeLine>& traceback) {
  return before.ends_with("not enough ") ||
         std::ranges::any_of(traceback, [](const CodeLine& line) {
           return line.file.size() > 1 && line.file.substr(1).starts_with(":\\");
         });
}

}  // namespace

std::optional<std::uint64_t> size_at_start(std::string_view text) {
  if (text.empty() || !is_digit(text.front())) return std::nullopt;  // no "inf"
  double value = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto parsed = std::from_chars(begin, end, value, std::chars_format::fixed);
  if (parsed.ec != std::errc{}) return std::nullopt;
  std::string_view unit(parsed.ptr, end);
  if (unit.starts_with(' ')) unit.remove_prefix(1);  // some versions print "8.38GiB"
  if (unit.starts_with("bytes")) return static_cast<std::uint64_t>(std::min(value, 0x1p60));
  constexpr std::string_view kPrefixes = "KMGTP";
  const std::size_t prefix = unit.empty() ? kPrefixes.npos : kPrefixes.find(unit.front());
  if (prefix == kPrefixes.npos) return std::nullopt;
  const std::string_view letters = unit.substr(1);
  if (!letters.starts_with("iB") && !letters.starts_with('B')) return std::nullopt;
  const double bytes = std::ldexp(value, 10 * static_cast<int>(prefix + 1));
  return static_cast<std::uint64_t>(std::min(std::round(bytes), 0x1p60));
}

std::vector<Found> find_messages(std::string_view text) {
  std::vector<Found> found;
  std::size_t last_end = 0;
  for_each_message(text, [&](std::size_t at, bool is_quoted, model::OomMessage message) {
    if (is_quoted) return;
    const std::size_t from = std::max(last_end, at - std::min(at, kLongestTracebackBytes));
    std::vector<CodeLine> traceback = traceback_of(text.substr(from, at - from));
    message.is_from_windows = is_from_windows(text.substr(0, at), traceback);
    found.push_back({std::move(message), std::move(traceback)});
    last_end = at;
  });
  return found;
}

bool quotes_message(std::string_view text) {
  bool is_any = false;
  for_each_message(text, [&](std::size_t, bool is_quoted, const model::OomMessage&) {
    is_any = is_any || is_quoted;
  });
  return is_any;
}

}  // namespace plimsoll::readers::oom_message

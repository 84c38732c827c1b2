#include "model/program_source.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace plimsoll::model {
namespace {

std::pair<std::uint32_t, std::uint32_t> place_of(const SourceLine& line) {
  return {line.file.value, line.line};
}

std::tuple<std::uint32_t, std::uint32_t, std::uint32_t> place_of_start(const FunctionStart& start) {
  return {start.file.value, start.function.value, start.line};
}

}  // namespace

void ProgramSource::add(SourceLine line) {
  text_bytes_ += line.text.capacity();
  lines_.push_back(std::move(line));
}

void ProgramSource::sort() {
  std::ranges::stable_sort(lines_, {}, place_of);
  std::ranges::sort(starts_, {}, place_of_start);
}

const SourceLine* ProgramSource::line(StringId file, std::uint32_t line) const {
  const auto beyond = std::ranges::upper_bound(lines_, std::pair(file.value, line), {}, place_of);
  if (beyond == lines_.begin()) return nullptr;
  const SourceLine& found = *(beyond - 1);
  return found.file == file && found.line == line ? &found : nullptr;
}

std::uint32_t ProgramSource::first_line(StringId file, StringId function,
                                        std::uint32_t line) const {
  const auto beyond = std::ranges::upper_bound(
      starts_, std::tuple(file.value, function.value, line), {}, place_of_start);
  if (beyond == starts_.begin()) return 0;
  const FunctionStart& found = *(beyond - 1);
  return found.file == file && found.function == function ? found.line : 0;
}

std::size_t ProgramSource::memory_bytes() const {
  return lines_.capacity() * sizeof(SourceLine) + starts_.capacity() * sizeof(FunctionStart) +
         text_bytes_;
}

}  // namespace plimsoll::model

// Finds the figures that a training program prints with their names: "Allocated: 8073.4 MB",
// "GPU 23.1 MB, CPU 1645.1 MB", "3242.0 MB reserved", "parameters : 5224.7 MB ( 64.1%)".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "plimsoll/memory_sample.h"

namespace plimsoll::logs {

// The device of figures that no line assigns to one.
inline constexpr std::string_view kUnnamedDevice = "the device";

// Adds the figures of a line; false if it has none. Devices are named as the line does ("gpu:1"),
// or kUnnamedDevice.
bool take_labelled(std::string_view line, MemorySample& sample);

// Adds the figures of later lines to those of a sample.
void add_figures(MemorySample&& later, MemorySample& sample);

// The number behind a word: 0.1 of "loss=0.1".
std::optional<double> number_behind(std::string_view line, std::string_view word);

// 40000 of "[ITERATION 40000] loss 0.1"
std::optional<std::int64_t> iteration_in(std::string_view line);

}  // namespace plimsoll::logs

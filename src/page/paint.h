// Paints: what a color in a drawing means, and its value in each theme. A drawing names only
// paints; a writer chooses the theme, or leaves it to the stylesheet of a page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace plimsoll::page {

// One line per paint: the enumerator, its name in CSS, its colors on a light and a dark background.
// Workspace, communication, optimizer scratch and pinned host memory are always hatched: fourteen
// colors cannot all be distinct for everyone (paint_test.cc checks both).
// clang-format off
#define PLIMSOLL_PAINTS(PAINT)                                        \
  PAINT(kBackground,         "background",          0xfbfaf7, 0x14171b) \
  PAINT(kInk,                "ink",                 0x1b1f24, 0xe9e7e2) \
  PAINT(kMuted,              "muted",               0x5c6570, 0x9aa3ad) \
  PAINT(kFaint,              "faint",               0x68717c, 0x8c95a0) \
  PAINT(kGrid,               "grid",                0xe9e6de, 0x252a31) \
  PAINT(kLine,               "line",                0xe4e1d9, 0x2b3138) \
  PAINT(kAccent,             "accent",              0x0b5fa5, 0x7fb8f0) \
  PAINT(kCritical,           "critical",            0xa8281a, 0xff8a75) \
  PAINT(kWarning,            "warning",             0x8a5a00, 0xf0b84a) \
  PAINT(kOk,                 "ok",                  0x1d6b45, 0x67c99a) \
  PAINT(kParameter,          "parameter",           0x2e5395, 0x3f8fe6) \
  PAINT(kBuffer,             "buffer",              0x2a99cf, 0xa3cdfb) \
  PAINT(kOptimizerState,     "optimizer_state",     0x5c2482, 0x8d62b4) \
  PAINT(kGradient,           "gradient",            0x107a6c, 0x5fb79d) \
  PAINT(kOther,              "other",               0x8c9196, 0x788089) \
  PAINT(kInput,              "input",               0x748244, 0xd5e766) \
  PAINT(kActivation,         "activation",          0xc2850c, 0xd9aa58) \
  PAINT(kActivationGradient, "activation_gradient", 0x9a3520, 0xcd6347) \
  PAINT(kTemporary,          "temporary",           0xb4539b, 0xfb93c6) \
  PAINT(kUnknown,            "unknown",             0x3a4148, 0x59616b) \
  PAINT(kWorkspace,          "workspace",           0x402808, 0xa84828) \
  PAINT(kCommunication,      "communication",       0x0880a8, 0xb8f8f8) \
  PAINT(kOptimizerScratch,   "optimizer_scratch",   0x9048c8, 0xb0a0f8) \
  PAINT(kPinnedHost,         "pinned_host",         0x506048, 0xc0c898) \
  PAINT(kLow,                "low",                 0x2e5395, 0x3f8fe6) \
  PAINT(kHigh,               "high",                0x9a3520, 0xcd6347) \
  PAINT(kSeries1,            "series1",             0xc2850c, 0xd9aa58) \
  PAINT(kSeries2,            "series2",             0x2e5395, 0x3f8fe6) \
  PAINT(kSeries3,            "series3",             0x107a6c, 0x5fb79d) \
  PAINT(kSeries4,            "series4",             0x9a3520, 0xcd6347) \
  PAINT(kSeries5,            "series5",             0x2a99cf, 0xa3cdfb) \
  PAINT(kSeries6,            "series6",             0xb4539b, 0xfb93c6) \
  PAINT(kSeries7,            "series7",             0x748244, 0xd5e766) \
  PAINT(kSeries8,            "series8",             0x5c2482, 0x8d62b4)
// clang-format on

enum class Paint : std::uint8_t {
  kNone,  // not painted
#define PLIMSOLL_PAINT_ENUMERATOR(enumerator, name, light, dark) enumerator,
  PLIMSOLL_PAINTS(PLIMSOLL_PAINT_ENUMERATOR)
#undef PLIMSOLL_PAINT_ENUMERATOR
};

// kPrint is kLight on pure white.
enum class Theme : std::uint8_t { kLight, kDark, kPrint };

struct Color {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;

  friend bool operator==(const Color&, const Color&) = default;
};

// Every paint except kNone.
#define PLIMSOLL_PAINT_VALUE(enumerator, name, light, dark) Paint::enumerator,
inline constexpr std::array kPaints = {PLIMSOLL_PAINTS(PLIMSOLL_PAINT_VALUE)};
#undef PLIMSOLL_PAINT_VALUE

std::string_view name_of(Paint paint);  // "optimizer_state"; "none"
Color color_of(Paint paint, Theme theme);

// `name` is one of the names in base/categories.h; kOther for any other name.
Paint paint_of_category(std::string_view name);
// Whether the category is always hatched.
bool is_hatched(Paint category);
// For groups other than categories (lines, layers, operators): eight paints in turn.
Paint paint_of_series(std::size_t index);

}  // namespace plimsoll::page

#include "nvtx/nvtx.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace plimsoll::nvtx {
namespace {

// The parts of NVTX's types that are needed: numbers and layouts as in its headers.
using Function = void (*)();
using Slot = Function*;
constexpr std::uint16_t kVersion = 3;
constexpr std::uint32_t kCallbacks = 1;  // number of the callback table
constexpr std::uint32_t kVersionInfo = 3;
constexpr std::uint32_t kCore2 = 5;  // number of the module with the domains

enum Core2 : std::size_t {
  kDomainMark = 1,
  kDomainRangeStart = 2,
  kDomainRangeEnd = 3,
  kDomainRangePush = 4,
  kDomainRangePop = 5,
  kDomainNameCategory = 8,
  kDomainRegisterString = 10,
  kDomainCreate = 12,
};

struct Event {
  std::uint16_t version = kVersion;
  std::uint16_t size = sizeof(Event);
  std::uint32_t category = 0;
  std::int32_t color_type = 0;
  std::uint32_t color = 0;
  std::int32_t payload_type = 0;
  std::int32_t reserved = 0;
  std::uint64_t payload = 0;
  std::int32_t message_type = 0;
  const void* message = nullptr;
};
static_assert(sizeof(Event) == 48 && offsetof(Event, message) == 40);
constexpr std::int32_t kUnsigned64 = 1;  // payload_type
constexpr std::int32_t kPlainText = 1;   // message_type
constexpr std::int32_t kKeptText = 3;

// The tables that the tool fills in, one per module, with as many functions as NVTX 3 has; the
// first entry is unused. Only the functions of the module with the domains are called.
template <std::size_t kSize>
struct Module {
  std::array<Function, kSize> functions{};
  std::array<Slot, kSize + 1> slots{};
  Module() {
    for (std::size_t i = 1; i < kSize; ++i) slots[i] = &functions[i];
  }
};
struct Modules {
  Module<16> core;
  Module<9> cuda;
  Module<15> opencl;
  Module<7> cudart;
  Module<16> core2;
  Module<7> sync;
};
Modules& modules() {
  static auto* all = new Modules;  // never destroyed: ranges may end until process exit
  return *all;
}

template <typename Signature, typename... Arguments>
auto call(Core2 function, Arguments... arguments) noexcept {
  using Result = decltype(static_cast<Signature*>(nullptr)(arguments...));
  const Function known = modules().core2.functions[function];
  if (known == nullptr) return Result();  // the tool does not use this function
  return reinterpret_cast<Signature*>(known)(arguments...);
}

// ---- functions that the tool calls -------------------------------------------------------------

struct Callbacks {
  std::size_t size;
  int (*module_table)(std::uint32_t module, Slot** table, unsigned* size);
};
struct VersionInfo {
  std::size_t size;
  std::uint32_t version;
  std::uint32_t reserved;
  void (*set_tool_version)(std::uint32_t version);
};

template <std::size_t kSize>
int give(Module<kSize>& module, Slot** table, unsigned* size) {
  if (table != nullptr) *table = module.slots.data();
  if (size != nullptr) *size = kSize;
  return 1;
}

int module_table(std::uint32_t module, Slot** table, unsigned* size) {
  switch (module) {
    case 1:
      return give(modules().core, table, size);
    case 2:
      return give(modules().cuda, table, size);
    case 3:
      return give(modules().opencl, table, size);
    case 4:
      return give(modules().cudart, table, size);
    case kCore2:
      return give(modules().core2, table, size);
    case 6:
      return give(modules().sync, table, size);
    default:
      return 0;
  }
}

const void* export_table(std::uint32_t id) {
  static const Callbacks kTables{sizeof(Callbacks), module_table};
  static const VersionInfo kInfo{sizeof(VersionInfo), kVersion, 0, [](std::uint32_t) {}};
  if (id == kCallbacks) return &kTables;
  return id == kVersionInfo ? &kInfo : nullptr;
}

// ---- finding the tool -------------------------------------------------------------------------

using Initialize = int (*)(const void* (*export_table)(std::uint32_t));

Error none(std::string why) { return make_error(ErrorCode::kUnsupported, std::move(why)); }

}  // namespace
}  // namespace plimsoll::nvtx

// A tool that is linked into the program. NVTX sets the name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" __attribute__((weak)) plimsoll::nvtx::Initialize InitializeInjectionNvtx2_fnptr;

namespace plimsoll::nvtx {
namespace {

Status call_tool(Initialize initialize, const std::string& name) {
  if (initialize(export_table) != 0) return {};
  return none("the tool " + name + " does not accept NVTX");
}

Status find_tool() {
  const char* const path = std::getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || path[0] == '\0') {
    const bool is_linked = &InitializeInjectionNvtx2_fnptr != nullptr;
    if (is_linked && InitializeInjectionNvtx2_fnptr != nullptr) {
      return call_tool(InitializeInjectionNvtx2_fnptr, "that the program was linked with");
    }
    return none("no tool reads NVTX here: start the program with plimsoll nsys");
  }
  void* const library = ::dlopen(path, RTLD_LAZY);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return none(std::string("NVTX_INJECTION64_PATH: ") + (why != nullptr ? why : path));
  }
  void* const symbol = ::dlsym(library, "InitializeInjectionNvtx2");
  if (symbol == nullptr) {
    ::dlclose(library);
    return none(std::string("NVTX_INJECTION64_PATH: ") + path + " is not a tool that reads NVTX");
  }
  Status called = call_tool(reinterpret_cast<Initialize>(symbol), path);
  if (!called) ::dlclose(library);
  return called;
}

void set_message(Event& event, const Nvtx::Text& text) {
  event.message_type = text.kept != nullptr ? kKeptText : kPlainText;
  event.message = text.kept != nullptr ? text.kept : text.plain;
}

}  // namespace

Nvtx::Nvtx() noexcept : domain_(call<void*(const char*)>(kDomainCreate, "Plimsoll")) {
  constexpr std::array<const char*, 5> kNames = {"phase", "layer", "region", "step", "memory"};
  for (std::uint32_t i = 0; i < kNames.size(); ++i) {
    call<void(void*, std::uint32_t, const char*)>(kDomainNameCategory, domain_, i + 1, kNames[i]);
  }
}

Result<const Nvtx*> Nvtx::connect() {
  static const Status kFound = find_tool();
  if (!kFound) return kFound.error();
  static const Nvtx* const kTool = new Nvtx;
  return kTool;
}

Nvtx::Text Nvtx::keep(const char* text) const noexcept {
  return {call<void*(void*, const char*)>(kDomainRegisterString, domain_, text), text};
}

void Nvtx::push(Category category, Text text) const noexcept {
  Event event{.category = category};
  set_message(event, text);
  call<int(void*, const Event*)>(kDomainRangePush, domain_, &event);
}

void Nvtx::pop() const noexcept { call<int(void*)>(kDomainRangePop, domain_); }

std::uint64_t Nvtx::start(Category category, const char* text) const noexcept {
  const Event event{.category = category, .message_type = kPlainText, .message = text};
  return call<std::uint64_t(void*, const Event*)>(kDomainRangeStart, domain_, &event);
}

void Nvtx::end(std::uint64_t range) const noexcept {
  call<void(void*, std::uint64_t)>(kDomainRangeEnd, domain_, range);
}

void Nvtx::mark(Category category, Text text, std::uint64_t value) const noexcept {
  Event event{.category = category, .payload_type = kUnsigned64, .payload = value};
  set_message(event, text);
  call<void(void*, const Event*)>(kDomainMark, domain_, &event);
}

}  // namespace plimsoll::nvtx

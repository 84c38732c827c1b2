#include "python/native/chains.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <Python.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "attachment.h"

namespace plimsoll::libtorch {

enum class FunctionKind : std::uint8_t { kCall, kRedispatch, kByHandle, kEngine };

struct NamedFunction {
  std::uint64_t begin, end;
  FunctionKind kind;
  std::uint32_t op;  // position in operator_texts()
};

// A frame, by its return address.
struct FrameMeaning {
  const NamedFunction* function = nullptr;  // the function that will be returned to
  const NamedFunction* callee = nullptr;    // what it has called; it may have no frame (tail calls)
  bool is_python = false;                   // the interpreter's own code
};

namespace {

struct LoadedLibrary {
  std::uint64_t begin, end;            // in memory
  std::uint64_t code_begin, code_end;  // executable
};

std::vector<NamedFunction>& functions() {  // sorted
  static Immortal<std::vector<NamedFunction>> all;
  return all.get();
}
std::vector<LoadedLibrary>& libraries() {
  static Immortal<std::vector<LoadedLibrary>> all;
  return all.get();
}
std::vector<std::string>& operator_texts() {
  static Immortal<std::vector<std::string>> all;
  return all.get();
}
LoadedLibrary g_python{};
std::uint64_t g_boundary = 0;

const NamedFunction* function_at(std::uint64_t address) {
  const auto after =
      std::ranges::upper_bound(functions(), address, std::less{}, &NamedFunction::begin);
  if (after == functions().begin()) return nullptr;
  const NamedFunction& found = *std::prev(after);
  return address < found.end ? &found : nullptr;
}

// ---- symbols ----------------------------------------------------------------------------------

// at::_ops::NAME_OVERLOAD -> the text that torch's observer gives.
using OperatorTexts = std::unordered_map<std::string, std::string>;
OperatorTexts read_operator_texts() {
  constexpr std::string_view kNamespace = "aten::";
  OperatorTexts texts;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with(kNamespace)) continue;
    std::string key = name.name.substr(kNamespace.size());
    if (!name.overload_name.empty()) key += "_" + name.overload_name;
    texts.emplace(std::move(key), name.name);
  }
  return texts;
}

// "_ZN2at4_ops5addmm4callE..." -> "addmm", kCall. Returns an empty text for other functions.
std::string_view operator_of(std::string_view symbol, FunctionKind& kind) {
  constexpr std::string_view kPrefix = "_ZN2at4_ops";
  if (!symbol.starts_with(kPrefix)) return {};
  symbol.remove_prefix(kPrefix.size());
  std::size_t size = 0;
  while (!symbol.empty() && symbol[0] >= '0' && symbol[0] <= '9') {
    size = size * 10 + static_cast<std::size_t>(symbol[0] - '0');
    symbol.remove_prefix(1);
  }
  if (size == 0 || symbol.size() < size) return {};
  const std::string_view name = symbol.substr(0, size);
  symbol.remove_prefix(size);
  if (symbol.starts_with("4callE")) {
    kind = FunctionKind::kCall;
  } else if (symbol.starts_with("10redispatchE")) {
    kind = FunctionKind::kRedispatch;
  } else {
    return {};
  }
  return name;
}

struct OtherFunction {
  std::string_view symbol;
  FunctionKind kind;
};
constexpr OtherFunction kOtherFunctions[] = {
    {"_ZN5torch8autograd6Engine11thread_mainE", FunctionKind::kEngine},
    // These call operators by their handles.
    {"_ZN5torch3jit16InterpreterState3runE", FunctionKind::kByHandle},
    {"_ZN5torch3jit6mobile16InterpreterState3runE", FunctionKind::kByHandle},
    {"_ZN5torch3jit24invokeOperatorFromPythonE", FunctionKind::kByHandle},
};

std::size_t count_of_symbols(const std::uint32_t* hash) {
  const std::uint32_t buckets = hash[0], first = hash[1], bloom_words = hash[2];
  const std::uint32_t* const bucket = hash + 4 + std::size_t{bloom_words} * 2;
  const std::uint32_t* const chain = bucket + buckets;
  const std::uint32_t last = buckets == 0 ? 0 : *std::max_element(bucket, bucket + buckets);
  if (last < first) return first;
  std::uint32_t at = last;
  while ((chain[at - first] & 1U) == 0) ++at;
  return at + 1;
}

void read_functions(std::uint64_t address, const ElfW(Dyn) * dynamic, const OperatorTexts& texts) {
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* hash = nullptr;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {
    const auto value = dynamic->d_un.d_ptr;
    if (dynamic->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(value);
    if (dynamic->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(value);
    if (dynamic->d_tag == DT_GNU_HASH) hash = reinterpret_cast<const std::uint32_t*>(value);
  }
  if (symbols == nullptr || strings == nullptr || hash == nullptr) return;
  const std::size_t count = count_of_symbols(hash);
  for (const ElfW(Sym)* symbol = symbols; symbol != symbols + count; ++symbol) {
    if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC) continue;
    const std::string_view name = strings + symbol->st_name;
    NamedFunction function{.begin = address + symbol->st_value,
                           .end = address + symbol->st_value + symbol->st_size,
                           .kind = FunctionKind::kCall,
                           .op = 0};
    const std::string_view op = operator_of(name, function.kind);
    if (!op.empty()) {
      const auto found = texts.find(std::string(op));
      if (found == texts.end()) continue;
      function.op = static_cast<std::uint32_t>(operator_texts().size());
      operator_texts().push_back(found->second);
    } else {
      const auto* const other = std::ranges::find_if(
          kOtherFunctions, [&](const auto& each) { return name.starts_with(each.symbol); });
      if (other == std::end(kOtherFunctions)) continue;
      function.kind = other->kind;
    }
    functions().push_back(function);
  }
}

int read_library(dl_phdr_info* info, std::size_t /*size*/, void* user) {
  LoadedLibrary library{.begin = ~std::uint64_t{0}, .end = 0, .code_begin = 0, .code_end = 0};
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uint64_t begin = info->dlpi_addr + header.p_vaddr;
    const std::uint64_t end = begin + header.p_memsz;
    if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (header.p_type != PT_LOAD) continue;
    library.begin = std::min(library.begin, begin);
    library.end = std::max(library.end, end);
    if ((header.p_flags & PF_X) == 0) continue;
    library.code_begin = begin;
    library.code_end = end;
  }
  libraries().push_back(library);
  const auto interpreter = reinterpret_cast<std::uint64_t>(&PyEval_EvalFrameEx);
  if (interpreter >= library.code_begin && interpreter < library.code_end) g_python = library;
  const std::string_view path = info->dlpi_name;
  const bool is_torchs = path.find("libtorch_cpu.") != std::string_view::npos ||
                         path.find("libtorch_python.") != std::string_view::npos;
  if (is_torchs && dynamic != nullptr) {
    read_functions(info->dlpi_addr, dynamic, *static_cast<const OperatorTexts*>(user));
  }
  return 0;
}

// ---- the meaning of a frame -------------------------------------------------------------------

const LoadedLibrary* library_at(std::uint64_t code) {
  const auto found = std::ranges::find_if(libraries(), [&](const LoadedLibrary& library) {
    return code >= library.code_begin && code < library.code_end;
  });
  return found == libraries().end() ? nullptr : &*found;
}

// The word that an instruction addresses relative to `next`, if it is in the library.
std::uint64_t word_at(const LoadedLibrary& library, std::uint64_t next, std::int32_t distance) {
  const std::uint64_t address = next + static_cast<std::uint64_t>(std::int64_t{distance});
  const bool is_inside = address >= library.begin && address + 8 <= library.end;
  std::uint64_t word = 0;
  if (is_inside && address % 8 == 0) {
    std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof(word));
  }
  return word;
}

std::int32_t distance_at(const unsigned char* code) {
  std::int32_t distance = 0;
  std::memcpy(&distance, code, sizeof(distance));
  return distance;
}

// The function that the call before this return address has called: directly, through an entry of
// the procedure linkage table, or through a word of the global offset table. Any other bytes give a
// target at which no function of torch begins.
const NamedFunction* called_before(std::uint64_t address) {
  const LoadedLibrary* library = library_at(address - 6);
  if (library == nullptr) return nullptr;
  const auto* const code = reinterpret_cast<const unsigned char*>(address);
  std::uint64_t target = 0;
  if (code[-5] == 0xE8) {  // call DISTANCE
    target = address + static_cast<std::uint64_t>(std::int64_t{distance_at(code - 4)});
    const bool is_stub =
        target >= library->code_begin && target + 16 <= library->code_end && target % 4 == 0;
    const auto* stub = reinterpret_cast<const unsigned char*>(target);
    constexpr unsigned char kEndbr64[] = {0xF3, 0x0F, 0x1E, 0xFA};
    if (is_stub && std::memcmp(stub, kEndbr64, sizeof(kEndbr64)) == 0) stub += sizeof(kEndbr64);
    if (is_stub && *stub == 0xF2) ++stub;
    if (is_stub && stub[0] == 0xFF && stub[1] == 0x25) {  // jmp *DISTANCE(%rip)
      const auto next = reinterpret_cast<std::uint64_t>(stub + 6);
      target = word_at(*library, next, distance_at(stub + 2));
    }
  } else if (code[-6] == 0xFF && code[-5] == 0x15) {  // call *DISTANCE(%rip)
    target = word_at(*library, address, distance_at(code - 4));
  }
  const NamedFunction* const function = function_at(target);
  return function != nullptr && function->begin == target ? function : nullptr;
}

}  // namespace

const FrameMeaning& NativeChains::meaning_of(std::uint64_t address) {
  const auto [entry, is_new] = meanings_.try_emplace(address);
  FrameMeaning& meaning = entry->second;
  if (!is_new) return meaning;
  meaning.is_python = address >= g_python.code_begin && address < g_python.code_end;
  if (meaning.is_python) return meaning;
  meaning.function = function_at(address - 1);
  meaning.callee = called_before(address);
  return meaning;
}

// ---- unwinding --------------------------------------------------------------------------------

struct NativeChains::Unwound {
  struct Frame {
    std::uint64_t address;        // that will be returned to
    std::uint64_t slot;           // contains that address
    std::uint64_t frame_pointer;  // the register's value in this frame
  };
  static constexpr std::size_t kMost = 1024;
  NativeChains* chains = nullptr;
  std::uint64_t base = 0;
  std::vector<Frame> frames;
  std::size_t last = 0;  // the outermost frame that the meaning depends on
  bool is_sound = true;
  bool is_recognizable = true;  // false: the meaning also depends on outer Python code
};

namespace {

constexpr int kFramePointer = 6;  // DWARF's number of rbp

}  // namespace

NativeChain NativeChains::meaning_of(Unwound& unwound, const char* base, const PythonCalls& calls) {
  const std::vector<Unwound::Frame>& frames = unwound.frames;
  const auto start = reinterpret_cast<std::uintptr_t>(base);
  std::size_t python = frames.size();  // the innermost frame of the interpreter
  for (std::size_t i = frames.size(); i-- > 0;) {
    if (meaning_of(frames[i].address).is_python) python = i;
  }
  NativeChain chain{.is_known = true};
  unwound.last = std::min(python, frames.size() - 1);
  const auto set_anchor = [&](std::size_t i) {
    chain.anchor = static_cast<std::uint32_t>(frames[i].slot - start);
    chain.anchor_value = frames[i].address;
    chain.runs_python = i > python;
    unwound.last = std::max(unwound.last, i);
  };
  const auto text_id = [](const NamedFunction& function) {
    const std::string& text = operator_texts()[function.op];
    return recorder().name(text.data(), text.size());
  };
  // Operator `op` runs, called by frame `i`.
  const auto call = [&](std::uint32_t op, std::size_t i) {
    if (chain.outer_op == 0) chain.outer_op = op;
    if (chain.anchor == 0) set_anchor(i);
    chain.inner_op = op;
  };
  const NamedFunction* previous = nullptr;
  for (std::size_t i = frames.size(); i-- > 0;) {
    const FrameMeaning& meaning = meaning_of(frames[i].address);
    if (i == python) {
      if (calls.handle != 0) call(calls.handle, i);
    } else if (meaning.is_python && calls.outer_handle != nullptr &&
               !meaning_of(frames[i - 1].address).is_python) {
      // Python code runs inside, such as the kernel of a custom operator.
      const std::uint32_t handle = calls.outer_handle(base + (frames[i].slot - start));
      if (handle != 0) call(handle, i);
      unwound.is_recognizable = unwound.is_recognizable && handle == 0;
    }
    for (const NamedFunction* function : {meaning.function, meaning.callee}) {
      if (function == nullptr || function == previous) continue;
      previous = function;
      if (function->kind == FunctionKind::kEngine) {
        chain.is_in_node = true;
        if (function == meaning.function) set_anchor(i);
        continue;
      }
      if (function->kind == FunctionKind::kByHandle) {
        // If an operator is known outside, only the innermost one is unknown.
        if (i >= python || calls.handle == 0) chain.is_known = false;
        continue;
      }
      const std::uint32_t op = text_id(*function);
      // The operator around it redispatches, unless something called that one by its handle.
      if (function->kind == FunctionKind::kRedispatch && op == chain.inner_op) continue;
      call(op, function == meaning.callee ? i : std::min(i + 1, frames.size() - 1));
    }
  }
  return chain;
}

// Stores the words that prove the chain, up to its last frame. Returns false if they are not found.
bool NativeChains::keep(const Unwound& unwound, std::uint64_t key, const NativeChain& chain) {
  const std::vector<Unwound::Frame>& frames = unwound.frames;
  const std::size_t last = unwound.last;
  const auto offset = [&](std::uint64_t address) {
    return static_cast<std::int64_t>(address - unwound.base);
  };
  Entry entry{.key = key,
              .next = heads_[key % kHeads],
              .words = static_cast<std::uint32_t>(words_.size()),
              .absolute = static_cast<std::uint32_t>(last + 1),
              .chain = chain};
  for (std::size_t i = 0; i <= last; ++i) {
    words_.push_back({offset(frames[i].slot), frames[i].address});
  }
  const auto add_relative = [&](std::uint64_t address, std::uint64_t value) {
    words_.push_back({offset(address), value - unwound.base});
    ++entry.relative;
  };
  for (std::size_t i = 0; i < last; ++i) {
    const std::uint64_t pointer = frames[i].frame_pointer;
    const std::uint64_t next = frames[i + 1].slot;
    // Either the frame pointer is right below the next slot, or (if the frame is aligned) the word
    // below the frame pointer contains the address above the next slot.
    const bool is_plain = pointer == next - 8;
    const bool is_aligned = !is_plain && pointer > frames[i].slot && pointer < next &&
                            pointer % 8 == 0 &&
                            *reinterpret_cast<const std::uint64_t*>(pointer - 8) == next + 8;
    if (!is_plain && !is_aligned) continue;
    // The nearest function inside that uses the register has saved it; at the latest the hook.
    std::uint64_t saved = frames[i].slot - 8;
    while (*reinterpret_cast<const std::uint64_t*>(saved) != pointer) {
      saved -= 8;
      if (saved < unwound.base - 16) {
        words_.resize(entry.words);
        return false;
      }
    }
    add_relative(saved, pointer);
    if (is_aligned) add_relative(pointer - 8, next + 8);
  }
  entries_.push_back(entry);
  heads_[key % kHeads] = static_cast<std::uint32_t>(entries_.size() - 1);
  return true;
}

[[gnu::noinline]] const NativeChain& NativeChains::learn(const char* base, std::uint64_t key,
                                                         const PythonCalls& calls) {
  Unwound unwound{.chains = this, .base = reinterpret_cast<std::uintptr_t>(base)};
  unwound.frames.reserve(128);
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* user) -> _Unwind_Reason_Code {
        Unwound& chain = *static_cast<Unwound*>(user);
        const std::uint64_t top = _Unwind_GetCFA(context);
        if (top < chain.base) return _URC_NO_REASON;  // of this adapter
        const std::uint64_t address = _Unwind_GetIP(context);
        if (address == 0) return _URC_END_OF_STACK;
        const bool is_first = chain.frames.empty();
        chain.is_sound = (!is_first || top == chain.base) &&
                         *reinterpret_cast<const std::uint64_t*>(top - 8) == address &&
                         chain.frames.size() < Unwound::kMost;
        if (!chain.is_sound) return _URC_END_OF_STACK;
        chain.frames.push_back({.address = address,
                                .slot = top - 8,
                                .frame_pointer = _Unwind_GetGR(context, kFramePointer)});
        const FrameMeaning& meaning = chain.chains->meaning_of(address);
        const bool is_engine =
            meaning.function != nullptr && meaning.function->kind == FunctionKind::kEngine;
        const bool is_boundary =
            !meaning.is_python && _Unwind_GetRegionStart(context) == g_boundary;
        return is_engine || is_boundary ? _URC_END_OF_STACK : _URC_NO_REASON;
      },
      &unwound);
  unkept_ = {};
  if (!unwound.is_sound || unwound.frames.empty()) return unkept_;
  unkept_ = meaning_of(unwound, base, calls);
  for (const Unwound::Frame& frame : unwound.frames) {
    if (frame.slot >= reinterpret_cast<std::uintptr_t>(calls.loop)) break;
    unkept_.call = static_cast<std::uint32_t>(frame.slot - unwound.base);
    unkept_.call_value = frame.address;
  }
  if (unwound.is_recognizable && entries_.size() <= kMostEntries) keep(unwound, key, unkept_);
  return unkept_;
}

bool prepare_chains(void (*boundary)()) {
  g_boundary = reinterpret_cast<std::uint64_t>(boundary);
  if (!functions().empty()) return true;
  OperatorTexts texts = read_operator_texts();
  libraries().clear();
  dl_iterate_phdr(read_library, &texts);
  std::ranges::sort(functions(), std::less{}, &NamedFunction::begin);
  return !functions().empty() && g_python.code_end != 0;
}

}  // namespace plimsoll::libtorch

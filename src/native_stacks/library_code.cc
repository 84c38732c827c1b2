#include "native_stacks/library_code.h"

#include <algorithm>
#include <array>

namespace plimsoll::native_stacks {
namespace {

// Prefixes of namespaces in mangled names. St, Sa, Ss and so on are abbreviations for std.
constexpr std::array<std::string_view, 11> kNamespaces = {
    "2at", "3c10", "5torch", "6caffe2", "9__gnu_cxx", "10__cxxabiv1", "St", "Sa", "Ss", "Sb", "So"};

constexpr std::array<std::string_view, 6> kFolders = {"/include/ATen/",   "/include/c10/",
                                                      "/include/caffe2/", "/include/torch/",
                                                      "/include/c++/",    "/usr/include/"};

// Prefixes of file names. A user's library may be called libtorch_model.so.
constexpr std::array<std::string_view, 33> kObjects = {
    "libtorch.so",     "libtorch_cpu",     "libtorch_cuda",  "libtorch_hip",  "libtorch_xpu",
    "libtorch_python", "libtorch_global_", "libtorchvision", "libtorchaudio", "libc10.so",
    "libc10_",         "libcaffe2",        "libshm.so",      "libstdc++",     "libc++",
    "libgcc_s",        "libc.so",          "libc-2",         "libm.so",       "libm-2",
    "libdl.so",        "ld-linux",         "libpthread",     "libgomp",       "libomp.so",
    "libiomp",         "libmkl_",          "libcuda.so",     "libcudart",     "libcudnn",
    "libcublas",       "libnccl",          "linux-vdso"};

bool starts_with_any(std::string_view text, const auto& beginnings) {
  return std::ranges::any_of(beginnings,
                             [&](std::string_view with) { return text.starts_with(with); });
}

// The qualified name in a mangled name: of the enclosing function, for a lambda.
std::string_view qualified_part(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return {};
  mangled.remove_prefix(2);
  while (mangled.starts_with("Z")) mangled.remove_prefix(1);
  if (mangled.starts_with("N")) mangled.remove_prefix(1);
  return mangled.substr(std::min(mangled.find_first_not_of("rVKRO"), mangled.size()));
}

}  // namespace

bool is_library_object(std::string_view path) {
  return starts_with_any(path.substr(path.rfind('/') + 1), kObjects);
}

bool is_plimsoll(const CodeFrame& frame) {
  return qualified_part(frame.linker_name).starts_with("8plimsoll") ||
         frame.linker_name.starts_with("plimsoll_libtorch_");
}

bool is_library_code(const CodeFrame& frame) {
  if (is_plimsoll(frame)) return true;
  if (frame.linker_name == "_start") return true;
  if (starts_with_any(qualified_part(frame.linker_name), kNamespaces)) return true;
  return std::ranges::any_of(kFolders, [&](std::string_view folder) {
    return frame.file.find(folder) != std::string::npos;
  });
}

}  // namespace plimsoll::native_stacks

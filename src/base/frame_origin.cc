#include "base/frame_origin.h"

#include <initializer_list>

#include "base/path_text.h"

namespace plimsoll::base {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool ends_with_any(std::string_view file, std::initializer_list<std::string_view> suffixes) {
  for (std::string_view suffix : suffixes) {
    if (file.ends_with(suffix)) return true;
  }
  return false;
}

// Whether the path after "FOLDER/" is accepted, for any folder of that name.
template <typename Accepts>
bool any_below(std::string_view file, std::string_view folder, Accepts&& accepts) {
  for (std::size_t at = file.find(folder); at != std::string_view::npos;
       at = file.find(folder, at + 1)) {
    const std::string_view rest = file.substr(at + folder.size());
    const bool begins = at == 0 || is_separator(file[at - 1]);
    if (begins && !rest.empty() && is_separator(rest[0]) && accepts(rest.substr(1))) return true;
  }
  return false;
}

bool is_in_torch_package(std::string_view file) {
  const auto is_torch = [](std::string_view rest) {
    return rest.size() > 6 && rest.starts_with("torch") && is_separator(rest[5]);
  };
  // A checkout of torch, or the C++ side naming Python helpers by their path inside the package.
  return any_below(file, "site-packages", is_torch) || any_below(file, "dist-packages", is_torch) ||
         file.starts_with("torch/") || contains(file, "/pytorch/torch/");
}

std::string_view before_separator(std::string_view path) {
  const std::size_t end = path.find_first_of("/\\");
  return end == std::string_view::npos ? std::string_view{} : path.substr(0, end);
}

// "3", "3.12", "3.13t", and "312" as on Windows.
bool is_python_version(std::string_view text) {
  return text.starts_with("3") && text.find_first_not_of("0123456789.t") == std::string_view::npos;
}

// lib/python3.12/copy.py, and Python312\Lib\copy.py on Windows.
bool is_in_standard_library(std::string_view file) {
  const auto is_of_python = [](std::string_view rest) {
    const std::string_view folder = before_separator(rest);
    return folder.starts_with("python") && is_python_version(folder.substr(6));
  };
  if (any_below(file, "lib", is_of_python) || any_below(file, "lib64", is_of_python)) return true;
  const std::size_t lib = file.find("\\Lib\\");
  if (lib == std::string_view::npos) return false;
  const std::string_view home = file.substr(0, lib);
  const std::string_view folder = home.substr(home.rfind('\\') + 1);
  return (folder.starts_with("Python") && is_python_version(folder.substr(6))) ||
         contains(home, "\\envs\\") || folder.ends_with("conda3");
}

bool is_in_library(std::string_view file) {
  const auto is_any = [](std::string_view) { return true; };
  return any_below(file, "site-packages", is_any) || any_below(file, "dist-packages", is_any) ||
         is_in_standard_library(file);
}

bool is_generated(std::string_view file) {
  return file.starts_with("<") || contains(file, "torchinductor_") ||
         contains(file, "__compiled_fn") || contains(file, "/torchinductor/");
}

}  // namespace

std::string_view notebook_cell(std::string_view file) {
  constexpr std::string_view kCell = "ipython-input-";
  const std::size_t at = file.rfind(kCell);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = file.substr(at + kCell.size());
  const std::string_view number = rest.substr(0, rest.find_first_not_of("0123456789"));
  return rest.substr(number.size()).starts_with("-") ? number : std::string_view{};
}

FrameOrigin origin_of(std::string_view file) {
  if (file == "<stdin>" || file.starts_with("In[") || !notebook_cell(file).empty()) {
    return FrameOrigin::kUser;
  }
  if (file == "<string>") return FrameOrigin::kText;
  const bool is_python = ends_with_any(file, {".py", ".pyc", ".ipynb"}) || file.starts_with("<");
  if (!is_python) return FrameOrigin::kNative;
  if (is_in_torch_package(file)) return FrameOrigin::kTorch;
  if (is_generated(file)) return FrameOrigin::kGenerated;
  return is_in_library(file) ? FrameOrigin::kLibrary : FrameOrigin::kUser;
}

}  // namespace plimsoll::base

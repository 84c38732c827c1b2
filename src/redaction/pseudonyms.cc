#include "redaction/pseudonyms.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/path_text.h"
#include "model/user_line.h"
#include "redaction/public_names.h"

namespace plimsoll::redaction {
namespace {

using model::FrameOrigin;

constexpr std::string_view kRoot = "/redacted/";

// Names common to all programs, which identify nobody; kPublicNames are more of them.
constexpr std::array<std::string_view, 24> kCommonNames = {
    "forward",        "backward",        "step",
    "module",         "lambda",          "listcomp",
    "dictcomp",       "setcomp",         "genexpr",
    "locals",         "weight",          "bias",
    "grad",           "running_mean",    "running_var",
    "main",           "exp_avg",         "exp_avg_sq",
    "max_exp_avg_sq", "momentum_buffer", "num_batches_tracked",
    "zero_grad",      "training_step",   "square_avg"};

constexpr std::array<std::string_view, 8> kTorchOperators = {
    "aten::",      "prims::", "prim::", "c10d::", "c10d_functional::", "_c10d_functional::",
    "quantized::", "torch::"};

// Non-ASCII bytes count as letters.
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::set<std::string_view> public_names() {
  std::set<std::string_view> names(kCommonNames.begin(), kCommonNames.end());
  for (std::size_t begin = 0; begin < kPublicNames.size();) {
    const std::size_t end = kPublicNames.find_first_of(" \n", begin);
    names.insert(kPublicNames.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

bool is_common(std::string_view name) {
  static const std::set<std::string_view> names = public_names();
  const bool is_special = name.size() > 4 && name.starts_with("__") && name.ends_with("__");
  return is_special || names.contains(name);
}

// The path from this part on, or empty if it lacks the part.
std::string_view from_part(std::string_view path, std::string_view part) {
  const std::size_t at = path.rfind(part);
  return at == std::string_view::npos ? std::string_view() : path.substr(at);
}

std::string_view last_component(std::string_view path) {
  const std::size_t slash = path.find_last_of("/\\");
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// AddmmBackward0: torch numbers its own nodes.
bool is_torch_node(std::string_view op) {
  const std::size_t at = op.rfind("Backward");
  if (at == std::string_view::npos || at == 0) return false;
  const std::string_view number = op.substr(at + 8);
  return !number.empty() && std::ranges::all_of(number, is_digit);
}

bool is_of_torch(std::string_view op) {
  const auto begins = [&](std::string_view part) { return op.starts_with(part); };
  return std::ranges::any_of(kTorchOperators, begins) || is_torch_node(op);
}

}  // namespace

std::string Pseudonyms::of(std::string_view text, unsigned uses) {
  const auto has = [uses](NameUse use) { return (uses & static_cast<unsigned>(use)) != 0; };
  if (has(NameUse::kFile)) return path(text);
  if (has(NameUse::kText)) return whole(text);
  if (has(NameUse::kAnnotation)) return annotation(text);
  if (has(NameUse::kIdentifier)) return identifiers(text);
  if (has(NameUse::kOperator)) return op(text);
  return uses == 0 ? whole(text) : std::string(text);
}

NameMap Pseudonyms::given() const {
  NameMap names;
  for (const auto& [kind, of_kind] : given_) {
    for (const auto& [text, name] : of_kind) names.emplace(name, text);
  }
  return names;
}

std::string Pseudonyms::numbered(const char* kind, std::string_view text) {
  auto& names = given_[kind];
  const auto found = names.find(text);
  if (found != names.end()) return found->second;
  std::string name = std::string(kind) + "_" + std::to_string(names.size() + 1);
  names.emplace(text, name);
  return name;
}

std::string Pseudonyms::folders(std::string_view path) {
  std::string out;
  std::string component;
  const auto end_folder = [&] {
    const bool is_name = !component.empty() && component != "." && component != "..";
    out += is_name ? numbered("folder", component) : component;
    component.clear();
  };
  const std::string_view file = last_component(path);
  for (const char c : path.substr(0, path.size() - file.size())) {
    if (!base::is_separator(c)) {
      component += c;
      continue;
    }
    end_folder();
    out += c;
  }
  const std::size_t dot = std::min(file.rfind('.'), file.size());
  const std::string_view suffix = file.substr(dot);
  const bool is_known = suffix == ".py" || suffix == ".pyc" || suffix == ".ipynb" ||
                        suffix == ".so" || suffix == ".cc" || suffix == ".cpp" || suffix == ".cu";
  return out + (is_known ? numbered("file", file.substr(0, dot)) + std::string(suffix)
                         : numbered("file", file));
}

std::string Pseudonyms::path(std::string_view file) {
  if (file.empty() || file == "??") return std::string(file);
  if (file.starts_with("<") && !file.starts_with("<ipython")) {
    return file == "<stdin>" || file == "<string>" || file.starts_with("<frozen ")
               ? std::string(file)
               : "<" + numbered("file", file) + ">";
  }
  const FrameOrigin origin = model::origin_of(file);
  if (const std::string_view cell = from_part(file, "ipython-input-"); !cell.empty()) {
    const std::size_t end = std::min(cell.find_first_not_of("0123456789", 14), cell.size());
    return "<" + std::string(cell.substr(0, end)) + "-" + numbered("cell", file) + ">";
  }
  if (origin == FrameOrigin::kTorch) {
    for (const std::string_view part : {"site-packages/torch", "dist-packages/torch", "torch/"}) {
      const std::string_view kept = from_part(file, part);
      if (!kept.empty())
        return file.starts_with(part) ? std::string(file) : std::string(kRoot).append(kept);
    }
  }
  if (origin == FrameOrigin::kGenerated) {
    return std::string(kRoot) + "torchinductor_user/" + numbered("file", file) + ".py";
  }
  if (origin == FrameOrigin::kLibrary) {
    for (const std::string_view part : {"site-packages/", "dist-packages/"}) {
      const std::string_view inside = from_part(file, part);
      if (inside.empty()) continue;
      return std::string(kRoot).append(part) + folders(inside.substr(part.size()));
    }
    const std::string_view library = from_part(file, "lib/python3");
    if (!library.empty()) return std::string(kRoot).append(library);
  }
  const std::string_view name = last_component(file);
  for (const std::string_view begin : {"libcuda", "libtorch", "libc10", "libnccl", "libcudnn"}) {
    if (origin == FrameOrigin::kNative && name.starts_with(begin)) {
      return name.size() == file.size() ? std::string(file) : std::string(kRoot).append(name);
    }
  }
  return folders(file);
}

std::string Pseudonyms::identifiers(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (!is_letter(text.front())) {
      const auto size =
          static_cast<std::size_t>(std::ranges::find_if(text, is_letter) - text.begin());
      out += text.substr(0, size);
      text.remove_prefix(size);
      continue;
    }
    const auto* const end =
        std::ranges::find_if(text, [](char c) { return !is_letter(c) && !is_digit(c); });
    const std::string_view name = text.substr(0, static_cast<std::size_t>(end - text.begin()));
    out += is_common(name) ? std::string(name) : numbered("name", name);
    text.remove_prefix(name.size());
  }
  return out;
}

std::string Pseudonyms::op(std::string_view text) {
  if (is_of_torch(text)) return std::string(text);
  return std::ranges::any_of(text, is_letter) ? numbered("operator", text) : std::string(text);
}

std::string Pseudonyms::whole(std::string_view text) {
  if (is_common(text) || is_of_torch(text)) return std::string(text);
  return std::ranges::any_of(text, is_letter) ? numbered("name", text) : std::string(text);
}

std::string Pseudonyms::annotation(std::string_view text) {
  if (text.starts_with("ProfilerStep#")) return std::string(text);
  const std::size_t mark = text.find('#');
  if (!text.starts_with("Optimizer.") || mark == std::string_view::npos) return whole(text);
  return std::string(text.substr(0, mark + 1)) + identifiers(text.substr(mark + 1));
}

}  // namespace plimsoll::redaction

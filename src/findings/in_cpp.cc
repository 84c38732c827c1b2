#include "findings/in_cpp.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::findings {
namespace {

struct Words {
  std::string_view python;
  std::string_view cpp;
};

// Longer ones before their parts.
constexpr std::array kWords{
    Words{"torch.utils.checkpoint.checkpoint(…, use_reentrant=False)",
          "a torch::autograd::Function that runs their forward again in backward"},
    Words{"torch.utils.checkpoint",
          "a torch::autograd::Function that runs their forward again in backward"},
    Words{"torch.no_grad() or torch.inference_mode()", "torch::NoGradGuard or c10::InferenceMode"},
    Words{"torch.no_grad()", "torch::NoGradGuard"},
    Words{"torch.inference_mode()", "c10::InferenceMode"},
    Words{"torch.backends.cudnn.benchmark to False",
          "at::globalContext().setBenchmarkCuDNN() to false"},
    Words{"torch.backends.cudnn.benchmark = False", "at::globalContext().setBenchmarkCuDNN(false)"},
    Words{"torch.cuda.empty_cache()", "c10::cuda::CUDACachingAllocator::emptyCache()"},
    Words{"torch.autocast", "at::autocast"},
    Words{"torch.nn.functional.scaled_dot_product_attention", "at::scaled_dot_product_attention"},
    Words{"zero_grad(set_to_none=True)", "zero_grad(true)"},
    Words{"create_graph=True", "create_graph = true"},
    Words{"pass sparse=True to nn.Embedding", "set sparse(true) in its EmbeddingOptions"},
    Words{"Call remove() on the handle of the hook,",
          "Call remove_hook() with the number of the hook,"},
    Words{" to None after its last use", " to {} after its last use"},
    Words{".item()", ".item<double>()"},
    Words{"list, dict or attribute", "container or member"},
    Words{"list, attribute, closure or cache", "container, member, closure or cache"},
    Words{"Python objects, NumPy arrays, imported modules, compiled code (torch.compile), ",
          "objects and containers of the program, "},
    Words{"native and Python memory with memray or heaptrack", "memory with heaptrack"},
    Words{"a smaller prefetch_factor, ", ""},
};

// LibTorch has nothing like these.
constexpr std::array<std::string_view, 9> kOnlyInPython{
    "fused=True", "foreach=False", "gc.collect()",  "torch.func.",       "DataParallel",
    "DataLoader", "num_workers",   "torch.compile", "torch.optim.Sparse"};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

bool is_in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "torch.optim.SGD." -> "torch::optim::SGD."
void replace_dots(std::string& text) {
  constexpr std::string_view kTorch = "torch.";
  for (std::size_t at = text.find(kTorch); at != text.npos; at = text.find(kTorch, at + 1)) {
    if (at > 0 && (is_in_name(text[at - 1]) || text[at - 1] == '/')) continue;
    for (std::size_t end = at; end + 1 < text.size(); ++end) {
      if (text[end] == '.' && is_in_name(text[end + 1])) {
        text.replace(end, 1, "::");
      } else if (!is_in_name(text[end]) && text[end] != ':') {
        break;
      }
    }
  }
}

// "after its last use (del batch)" -> "after its last use (batch.reset())"
void replace_del(std::string& text) {
  constexpr std::string_view kDel = "(del ";
  for (std::size_t at = text.find(kDel); at != text.npos; at = text.find(kDel, at + 1)) {
    const std::size_t end = text.find(')', at);
    if (end == text.npos) return;
    const std::string name = text.substr(at + kDel.size(), end - at - kDel.size());
    text.replace(at, end - at, "(" + name + ".reset()");
  }
}

}  // namespace

std::string in_cpp(std::string text) {
  for (const Words& words : kWords) replace_all(text, words.python, words.cpp);
  replace_dots(text);
  replace_del(text);
  return text;
}

void put_into_cpp(report::Finding& finding) {
  std::erase_if(finding.steps, [](const report::FindingStep& step) {
    return std::ranges::any_of(kOnlyInPython, [&](std::string_view words) {
      return step.text.find(words) != std::string::npos;
    });
  });
  for (report::FindingStep& step : finding.steps) step.text = in_cpp(std::move(step.text));
  for (std::string& text : finding.evidence) text = in_cpp(std::move(text));
}

}  // namespace plimsoll::findings

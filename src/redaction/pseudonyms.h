// Pseudonyms for names: equal texts always get the same one, numbered in order of first use. The
// names that torch, CUDA and Python themselves use are kept.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "plimsoll/session.h"

namespace plimsoll::redaction {

// What a text is used for, as bits.
enum class NameUse : unsigned {
  kPublic = 1u << 0u,  // dtypes, shapes, settings, functions of torch
  kOperator = 1u << 1u,
  kIdentifier = 1u << 2u,  // functions, layers, tensors
  kAnnotation = 1u << 3u,  // torch's (ProfilerStep#3) and the user's
  kText = 1u << 4u,        // regions, processes, notices, pools
  kFile = 1u << 5u,
};

class Pseudonyms {
 public:
  // The pseudonym of a text, or the text itself if it is kept. The most private of its uses
  // decides; a text without a use is private.
  std::string of(std::string_view text, unsigned uses);

  // "/home/ann/net/model.py" -> "/folder_1/folder_2/folder_3/file_1.py". Paths inside torch and the
  // standard library keep what follows site-packages/torch or lib/python3.
  std::string path(std::string_view file);
  // Functions, layers and tensors: "Net.blocks.0.weight" -> "name_1.name_2.0.weight". Numbers, dots
  // and the names that Python or every module has (__init__, forward, weight) are kept.
  std::string identifiers(std::string_view text);
  // "aten::mm" and "MmBackward0" are kept; operators from elsewhere become "operator_1".
  std::string op(std::string_view text);
  // Any other text that contains letters becomes "name_1" as a whole.
  std::string whole(std::string_view text);
  // "Optimizer.step#Net.step" -> "Optimizer.step#name_1.step": steps are found by these.
  std::string annotation(std::string_view text);

  // All pseudonyms so far, each with its text.
  NameMap given() const;

 private:
  std::string numbered(const char* kind, std::string_view text);
  std::string folders(std::string_view path);

  std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>> given_;
};

}  // namespace plimsoll::redaction

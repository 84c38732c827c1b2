// Names that stand for other names: the same one for the same text, numbered in the order in which
// they are asked for. What torch, CUDA and Python themselves are called is kept.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace plimsoll::engine {

class Pseudonyms {
 public:
  // "/home/ann/net/model.py" -> "/folder_1/folder_2/folder_3/file_1.py". Paths inside torch and the
  // standard library keep what follows site-packages/torch or lib/python3.
  std::string path(std::string_view file);
  // Functions, layers and tensors: "Net.blocks.0.weight" -> "name_1.name_2.0.weight". Numbers, dots
  // and the names that Python or every module has (__init__, forward, weight) are kept.
  std::string identifiers(std::string_view text);
  // "aten::mm" and "MmBackward0" are kept, operators of others are "operator_1".
  std::string op(std::string_view text);
  // Any other text that has letters, as a whole: "name_1".
  std::string whole(std::string_view text);

 private:
  std::string numbered(const char* kind, std::string_view text);
  std::string folders(std::string_view path);

  std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>> given_;
};

}  // namespace plimsoll::engine

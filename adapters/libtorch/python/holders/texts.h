// Texts of Python objects, and numbers for them.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll::libtorch::holders {

inline std::string text_of_string(PyObject* object) {
  Py_ssize_t size = 0;
  const char* bytes = object != nullptr && PyUnicode_Check(object) != 0
                          ? PyUnicode_AsUTF8AndSize(object, &size)
                          : nullptr;
  if (bytes == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return {bytes, static_cast<std::size_t>(size)};
}

inline PyObject* name_of_code(const PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  return code->co_qualname;
#else
  return code->co_name;
#endif
}

// "OrderedDict" for "collections.OrderedDict".
inline std::string name_of_type(const PyTypeObject* type) {
  const std::string_view name = type->tp_name;
  const std::size_t dot = name.rfind('.');
  return std::string(dot == name.npos ? name : name.substr(dot + 1));
}

// Texts by number, from 1. 0 is no text.
class Texts {
 public:
  std::uint32_t number_of(std::string_view text) {
    if (text.empty()) return 0;
    const auto [entry, is_new] =
        numbers_.emplace(text, static_cast<std::uint32_t>(texts_.size() + 1));
    if (is_new) texts_.emplace_back(text);
    return entry->second;
  }
  std::string_view operator[](std::uint32_t number) const {
    return number == 0 ? std::string_view() : std::string_view(texts_[number - 1]);
  }
  const std::vector<std::string>& all() const { return texts_; }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

}  // namespace plimsoll::libtorch::holders

#include "python/holders/attributes.h"

namespace plimsoll::libtorch::holders {
namespace {

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000
// The first members of the keys that the objects of a class share, in CPython 3.11 to 3.13.
struct SharedKeys {
  Py_ssize_t references;
  std::uint8_t log2_size;
  std::uint8_t log2_index_bytes;
  std::uint8_t kind;
  std::uint32_t version;
  Py_ssize_t usable;
  Py_ssize_t entries;
};
constexpr std::uint8_t kSplit = 2;

constexpr Py_ssize_t kDictWord = -3;  // of an object with a managed dict, in words
#if PY_VERSION_HEX < 0x030C0000
constexpr Py_ssize_t kValuesWord = -4;
#endif

PyObject* word_of(PyObject* object, Py_ssize_t word) {
  return reinterpret_cast<PyObject**>(object)[word];
}

PyObject** values_before(PyObject* object) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyObject**>(word_of(object, kValuesWord));
#elif PY_VERSION_HEX < 0x030D0000
  const auto word = reinterpret_cast<std::uintptr_t>(word_of(object, kDictWord));
  return (word & 1U) == 0 ? nullptr : reinterpret_cast<PyObject**>(word + 1);
#else
  if (PyType_HasFeature(Py_TYPE(object), Py_TPFLAGS_INLINE_VALUES) == 0) return nullptr;
  auto* header = reinterpret_cast<std::uint8_t*>(object) + sizeof(PyObject);
  const bool is_valid = header[3] != 0;
  return is_valid ? reinterpret_cast<PyObject**>(header + 8) : nullptr;
#endif
}
#endif

}  // namespace

InlineValues inline_values_of(PyObject* object) {
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000
  PyTypeObject* type = Py_TYPE(object);
  if (PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT) == 0) return {};
  PyObject** values = values_before(object);
  auto* keys =
      reinterpret_cast<SharedKeys*>(reinterpret_cast<PyHeapTypeObject*>(type)->ht_cached_keys);
  if (values == nullptr || keys == nullptr || keys->kind != kSplit) return {};
  auto* indices = reinterpret_cast<char*>(keys + 1);
  auto** names = reinterpret_cast<PyObject**>(indices + (std::size_t{1} << keys->log2_index_bytes));
  return {values, names, static_cast<std::size_t>(keys->entries)};
#else
  (void)object;
  return {};
#endif
}

PyObject* dict_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000
  if (PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT) != 0) {
    PyObject* dict = word_of(object, kDictWord);
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
    if ((reinterpret_cast<std::uintptr_t>(dict) & 1U) != 0) return nullptr;
#endif
    return dict;
  }
#endif
  if (type->tp_dictoffset == 0) return nullptr;
  PyObject** place = _PyObject_GetDictPtr(object);
  return place == nullptr ? nullptr : *place;
}

#if PY_VERSION_HEX >= 0x030B0000
namespace {

// The first members of a frame object.
struct FrameObject {
  PyObject_HEAD PyObject* before;
  InterpreterFrame* frame;
};

}  // namespace

InterpreterFrame* frame_of_object(PyObject* frame_object) {
  return reinterpret_cast<FrameObject*>(frame_object)->frame;
}

InterpreterFrame* frame_of_generator(PyObject* generator) {
  constexpr int kCompleted = 1;  // FRAME_COMPLETED; suspended and executing ones are lower
  auto* found = reinterpret_cast<PyGenObject*>(generator);
  if (found->gi_frame_state >= kCompleted) return nullptr;
  return reinterpret_cast<InterpreterFrame*>(found->gi_iframe);
}
#endif

PyCodeObject* code_of_traceback(const PyTracebackObject& traceback) {
#if PY_VERSION_HEX >= 0x030B0000
  const InterpreterFrame* frame = frame_of_object(reinterpret_cast<PyObject*>(traceback.tb_frame));
  return frame == nullptr ? nullptr : frame->code;
#else
  return traceback.tb_frame->f_code;
#endif
}

int line_of_traceback(const PyTracebackObject& traceback, PyCodeObject* code) {
  return traceback.tb_lineno > 0  // or not known yet
             ? traceback.tb_lineno
             : PyCode_Addr2Line(code, traceback.tb_lasti);
}

}  // namespace plimsoll::libtorch::holders

// Pointers of loaded libraries that are replaced during a recording: entries of import tables and
// of virtual function tables. They lie in pages that are read-only after loading.
#pragma once

#include <vector>

namespace plimsoll::libtorch {

class PatchedWords {
 public:
  // Replaces the pointer at `place`. Returns false if it is in no library, or in a page that cannot
  // be written.
  bool replace(void** place, void* ours);
  // Replaces each import of `symbol` in all loaded libraries; returns their number.
  int replace_imports(const char* symbol, void* ours);
  // Restores each pointer that still is ours.
  void restore() noexcept;

 private:
  struct Word {
    void** place;
    void* original;
    void* ours;
    void* library;  // so that the program cannot unload it meanwhile
  };
  std::vector<Word> words_;
};

}  // namespace plimsoll::libtorch

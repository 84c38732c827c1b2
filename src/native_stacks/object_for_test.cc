// A shared library whose functions call back from known lines (source_lines_test.cc).
namespace {

// The empty assembly keeps the calls from being tail calls.
[[gnu::always_inline]] inline void inlined(void (*callback)()) {
  callback();  // line 6
  asm volatile("");
}

[[gnu::noinline]] void hidden(void (*callback)()) {
  callback();
  asm volatile("");
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void call_inlined(void (*callback)()) {
  inlined(callback);  // line 18
  asm volatile("");
}

extern "C" [[gnu::visibility("default")]] void call_hidden(void (*callback)()) {
  hidden(callback);
  asm volatile("");
}

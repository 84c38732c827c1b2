// A tool that receives NVTX, like Nsight Systems' library: it writes every call into the file
// FAKE_NVTX_LOG, one per line, beginning with the thread. With FAKE_NVTX_REFUSES it refuses to
// initialize. NVTX's types and numbers are deliberately declared a second time here.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace {

struct Attributes {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type;
  std::int32_t reserved;
  std::uint64_t payload;
  std::int32_t message_type;
  const void* message;
};

struct Callbacks {
  std::size_t size;
  int (*get_table)(int module, void (****table)(), unsigned* size);
};

struct Domain {
  std::string name;
  std::string categories[16];
};

void write(const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::FILE* file = std::fopen(std::getenv("FAKE_NVTX_LOG"), "a");
  std::fprintf(file, "%ld %s\n", ::syscall(SYS_gettid), line.c_str());
  std::fclose(file);
}

std::string text_of(void* domain, const Attributes* event) {
  if (event->version != 3 || event->size != 48) return "WRONG ATTRIBUTES";
  const auto* text = static_cast<const char*>(event->message);
  if (event->message_type == 3) text = static_cast<const std::string*>(event->message)->c_str();
  std::string line = static_cast<Domain*>(domain)->categories[event->category];
  line += " ";
  line += text;
  if (event->payload_type == 1) line += " = " + std::to_string(event->payload);
  return line;
}

void mark(void* domain, const Attributes* event) { write("mark " + text_of(domain, event)); }
std::uint64_t start(void* domain, const Attributes* event) {
  static std::uint64_t ranges = 100;
  write("start " + std::to_string(++ranges) + " " + text_of(domain, event));
  return ranges;
}
void end(void*, std::uint64_t range) { write("end " + std::to_string(range)); }
int push(void* domain, const Attributes* event) {
  write("push " + text_of(domain, event));
  return 0;
}
int pop(void*) {
  write("pop");
  return 0;
}
void name_category(void* domain, std::uint32_t category, const char* name) {
  static_cast<Domain*>(domain)->categories[category % 16] = name;
}
void* register_string(void*, const char* text) { return new std::string(text); }
void* create(const char* name) {
  write(std::string("domain ") + name);
  return new Domain{name, {}};
}

template <typename Fn>
void fill(void (***table)(), std::size_t id, Fn* function) {
  *table[id] = reinterpret_cast<void (*)()>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*export_table)(std::uint32_t)) {
  write("initialize");
  if (std::getenv("FAKE_NVTX_REFUSES") != nullptr) return 0;
  const auto* callbacks = static_cast<const Callbacks*>(export_table(1));
  void (***table)() = nullptr;
  unsigned size = 0;
  for (int module = 1; module <= 6; ++module) {
    if (callbacks->get_table(module, &table, &size) == 0 || size == 0) return 0;
  }
  if (callbacks->get_table(5, &table, &size) == 0 || size != 16) return 0;
  fill(table, 1, mark);
  fill(table, 2, start);
  fill(table, 3, end);
  fill(table, 4, push);
  fill(table, 5, pop);
  fill(table, 8, name_category);
  fill(table, 10, register_string);
  fill(table, 12, create);
  return 1;
}

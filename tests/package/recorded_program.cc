// A program that reports its own allocations and starts no recording: for `plimsoll run --
// PROGRAM`.
//
//   recorded_program [alloc:BYTES…] [churn:COUNT] [own:PATH] [child] [wait] [exit:STATUS]
//
// churn: allocates and frees a byte COUNT times; child: starts itself again as a separate program;
// wait: prints a line, then waits until a signal ends it.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "plimsoll/recorder.h"

namespace {

void allocate(std::uint64_t size_bytes) {
  static std::uint64_t address = 0x1000;
  const plimsoll_recorder_api* api = plimsoll_recorder();
  PLIMSOLL_LAYER("Net");
  api->alloc(api->context(), 0, address, size_bytes);
  address += size_bytes;
}

void churn(int count) {
  const plimsoll_recorder_api* api = plimsoll_recorder();
  for (int i = 0; i < count; ++i) {
    api->alloc(api->context(), 0, 0x10, 1);
    api->free(api->context(), 0, 0x10);
  }
}

void run_itself(const char* program) {
  const pid_t child = fork();
  if (child == 0) {
    execl(program, program, "alloc:77", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
}

}  // namespace

int main(int count, char** arguments) {
  auto own = plimsoll::Recording::start({.path = "/dev/null"});
  own->stop();
  for (int i = 1; i < count; ++i) {
    const std::string word = arguments[i];
    const std::string value = word.substr(word.find(':') + 1);
    if (word.starts_with("alloc:")) allocate(std::stoull(value));
    if (word.starts_with("churn:")) churn(std::stoi(value));
    if (word.starts_with("own:")) own = plimsoll::Recording::start({.path = value});
    if (word == "child") run_itself(arguments[0]);
    if (word.starts_with("exit:")) return std::stoi(value);
    if (word == "wait") {
      if (auto flushed = plimsoll::Recording::start({})) flushed->flush();
      std::puts("waiting");
      std::fflush(stdout);
      for (;;) pause();
    }
  }
}

// Temporary
#include <cstdio>
#include <cstring>
#include <string>

#include "plimsoll/session.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto session = plimsoll::Session::open(argv[argc - 1]);
  if (!session) {
    std::fprintf(stderr, "plimsoll: %s\n", session.error().message.c_str());
    return 3;
  }
  const std::string json = session->report_json();
  std::fwrite(json.data(), 1, json.size(), stdout);
  return 0;
}

// A simulated /proc and /sys in a temporary folder, deleted with the object.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace plimsoll::tests {

class FakeMachine {
 public:
  const std::string& root() const { return folder_.path(); }

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full, std::ios::binary) << text;
  }

  // A process with this resident set.
  void add_process(int pid, int parent_pid, const std::string& name, const std::string& command,
                   int rss_kib) const {
    const std::string folder = "/proc/" + std::to_string(pid);
    const std::string rss = std::to_string(rss_kib);  // stat counts pages
    write(folder + "/stat",
          std::to_string(pid) + " (" + name + ") S " + std::to_string(parent_pid) +
              " 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 0 1 0 98765 1 " + rss + " 1\n");
    write(folder + "/cmdline", command);
    write(folder + "/status", "Name:\t" + name + "\nVmHWM:\t " + rss + " kB\nVmRSS:\t " + rss +
                                  " kB\nRssAnon:\t 100 kB\nRssFile:\t 20 kB\nRssShmem:\t 3 kB\n" +
                                  "VmSwap:\t 0 kB\n");
  }
  void add_pss(int pid, int pss_kib) const {
    write("/proc/" + std::to_string(pid) + "/smaps_rollup",
          "5560-7ffe ---p 00000000 00:00 0 [rollup]\nRss: 900 kB\nPss: " + std::to_string(pss_kib) +
              " kB\nPss_Anon: 1 kB\nShared_Clean: 40 kB\nShared_Dirty: 2 kB\nPrivate_Clean: 5 "
              "kB\nPrivate_Dirty: 60 kB\n");
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace plimsoll::tests

// Which process printed a line of a log that several share: the ranks of torchrun, srun, mpirun and
// DeepSpeed, the workers of Ray, or the containers of docker compose.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::logs {

struct TaggedLine {
  std::string process;    // "rank 3", "pid 123", "worker-3"; empty: unknown
  std::string_view line;  // without the tag
};

class RankTags {
 public:
  // A tag such as "3: " or "worker-3: " may also number an iteration. It is that of a process from
  // the first line that numbers its iteration in other words, or that repeats the tag of the line
  // before it.
  TaggedLine take(std::string_view line);

 private:
  std::string last_;
  bool are_sure_ = false;
};

}  // namespace plimsoll::logs

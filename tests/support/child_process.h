// Tests that run a part of themselves in a child process.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plimsoll::tests {

// Runs `body` in a child process, which exits with its result. Returns the child's pid.
template <typename Body>
pid_t spawn(Body&& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  return child;
}

// Returns the child's status from waitpid().
inline int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}
inline void expect_success(int status) {
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

}  // namespace plimsoll::tests

// Workspaces among the allocations of shared libraries with torch's call chains.
#include "library_workspaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "fake_libraries.h"

namespace plimsoll::libtorch_cuda {
namespace {

using testing::ElementsAre;
using testing::Pair;

LibraryWorkspaces* g_workspaces = nullptr;
thread_local std::vector<std::pair<std::size_t, Library>> t_seen;

void track(std::size_t bytes) {
  t_seen.emplace_back(bytes, g_workspaces->of_caller(__builtin_frame_address(0)));
}

class LibraryWorkspacesTest : public testing::Test {
 protected:
  LibraryWorkspacesTest() {
    g_workspaces = &workspaces_;
    fake::set_tracker(&track);
    workspaces_.begin(fake::address_in_allocator());
    t_seen.clear();
  }

  LibraryWorkspaces workspaces_;
};

// Calls itself, because torch's calls have different depths in different programs.
[[gnu::noinline]] void deeper(int calls, std::size_t bytes) {
  [[maybe_unused]] volatile char frame[200] = {};
  if (calls > 0) {
    deeper(calls - 1, bytes);
  } else {
    at::native::sum(bytes);
    at::cuda::getCurrentCUDABlasHandle();
  }
  asm volatile("");
}

TEST_F(LibraryWorkspacesTest, CallerDecidesAndNotTheSize) {
  at::cuda::getCurrentCUDABlasHandle();
  fake::allocate(fake::kCublasBytes);  // by the program
  at::native::resize_bytes_cuda(fake::kCublasBytes);
  at::cuda::getCUDABlasLtWorkspace();
  fake::raw_allocate(fake::kCublasLtBytes);
  at::native::sum(fake::kCublasLtBytes);
  EXPECT_THAT(t_seen, ElementsAre(Pair(fake::kCublasBytes, Library::kCublas),
                                  Pair(fake::kCublasBytes, Library::kNone),
                                  Pair(fake::kCublasBytes, Library::kNone),
                                  Pair(fake::kCublasLtBytes, Library::kCublasLt),
                                  Pair(fake::kCublasLtBytes, Library::kNone),
                                  Pair(fake::kCublasLtBytes, Library::kNone)));
}

TEST_F(LibraryWorkspacesTest, CudnnInForwardAndBackward) {
  at::native::cudnn_convolution(100);
  EXPECT_EQ(t_seen.back().second, Library::kCudnn);
  LibraryWorkspaces others;
  others.begin(fake::address_in_allocator());
  g_workspaces = &others;
  at::native::convolution_backward(100);  // its kernel has no exported name
  EXPECT_EQ(t_seen.back().second, Library::kCudnn);
}

TEST_F(LibraryWorkspacesTest, StackIsUnwoundOncePerPlace) {
  for (std::size_t i = 0; i < 10'000; ++i) {
    fake::allocate(i);
    at::native::sum(i);
    at::native::resize_bytes_cuda(i);
    at::native::cudnn_convolution(i);
    at::cuda::getCurrentCUDABlasHandle();
    deeper(static_cast<int>(i % 50), i);
  }
  EXPECT_EQ(t_seen.size(), 70'000u);
  // Five places; a sanitizer aligns frames, so a place may have more than one layout.
  EXPECT_GE(workspaces_.walks(), 5u);
  EXPECT_LE(workspaces_.walks(), 40u);
  for (std::size_t i = 0; i < t_seen.size(); i += 7) {
    ASSERT_EQ(t_seen[i].second, Library::kNone) << i;
    ASSERT_EQ(t_seen[i + 1].second, Library::kNone) << i;
    ASSERT_EQ(t_seen[i + 2].second, Library::kNone) << i;
    ASSERT_EQ(t_seen[i + 3].second, Library::kCudnn) << i;
    ASSERT_EQ(t_seen[i + 4].second, Library::kCublas) << i;
    ASSERT_EQ(t_seen[i + 5].second, Library::kNone) << i;
    ASSERT_EQ(t_seen[i + 6].second, Library::kCublas) << i;
  }
}

TEST_F(LibraryWorkspacesTest, ThreadsAgree) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([thread] {
      for (int i = 0; i < 200; ++i) {
        t_seen.clear();
        deeper((thread + i) % 20, 1);
        at::native::cudnn_convolution(2);
        fake::raw_allocate(3);
        EXPECT_THAT(t_seen,
                    ElementsAre(Pair(1, Library::kNone), Pair(fake::kCublasBytes, Library::kCublas),
                                Pair(2, Library::kCudnn), Pair(3, Library::kNone)));
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

TEST_F(LibraryWorkspacesTest, WalksEndWhereNothingCanBeLearned) {
  LibraryWorkspaces elsewhere;  // its allocator is never on the stack
  g_workspaces = &elsewhere;
  for (std::size_t i = 0; i < 3 * LibraryWorkspaces::kMostPlaces; ++i) {
    at::cuda::getCurrentCUDABlasHandle();
  }
  EXPECT_EQ(elsewhere.walks(), LibraryWorkspaces::kMostPlaces);
  EXPECT_EQ(t_seen.back().second, Library::kNone);
}

}  // namespace
}  // namespace plimsoll::libtorch_cuda

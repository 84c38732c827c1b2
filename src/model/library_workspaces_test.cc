#include "model/library_workspaces.h"

#include <gtest/gtest.h>

namespace plimsoll::model {
namespace {

TEST(LibraryWorkspaces, DefaultsByArchitectureAndVersion) {
  EXPECT_EQ(kSmallCublasWorkspaceBytes, 8'519'680u);
  EXPECT_EQ(kLargeCublasWorkspaceBytes, 33'554'432u);
  EXPECT_EQ(kCublasLtWorkspaceBytes, 1'048'576u);
  EXPECT_EQ(cublas_workspace_bytes(8, 11), 8'519'680u);
  EXPECT_EQ(cublas_workspace_bytes(9, 0), 33'554'432u);
  EXPECT_EQ(cublas_workspace_bytes(9, 11), 33'554'432u);
  EXPECT_EQ(cublas_workspace_bytes(10, 11), 8'519'680u);
  EXPECT_EQ(cublas_workspace_bytes(10, 12), 33'554'432u);
  EXPECT_EQ(cublas_workspace_bytes(12, 12), 33'554'432u);
  EXPECT_EQ(cublas_workspace_bytes(11, 13), 8'519'680u);
  EXPECT_EQ(cublas_workspace_bytes(11, 14), 33'554'432u);
}

TEST(LibraryWorkspaces, ConfigSumsItsPairs) {
  EXPECT_EQ(workspace_config_bytes(":4096:8"), 33'554'432u);
  EXPECT_EQ(workspace_config_bytes(":4096:2:16:8"), 8'519'680u);
  EXPECT_EQ(workspace_config_bytes(":16:8"), 131'072u);
  EXPECT_EQ(workspace_config_bytes("size:16:8 and :16:8"), 262'144u);
  EXPECT_EQ(workspace_config_bytes(":0:0"), 0u);
}

TEST(LibraryWorkspaces, UnreadableConfigMeansDefault) {
  for (const char* config : {"", "4096", ":4096", ":4096:", "::", ":a:b", ":4096:x"}) {
    EXPECT_FALSE(workspace_config_bytes(config).has_value()) << config;
  }
  EXPECT_FALSE(workspace_config_bytes(":99999999999999999999:1").has_value());
}

TEST(LibraryWorkspaces, LtSizeIsInKibibytes) {
  EXPECT_EQ(workspace_size_bytes("1024"), 1'048'576u);
  EXPECT_EQ(workspace_size_bytes("0"), 0u);
  EXPECT_EQ(workspace_size_bytes("32KB"), 32'768u);
  for (const char* text : {"", "KB", "-1", "99999999999"}) {
    EXPECT_FALSE(workspace_size_bytes(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace plimsoll::model

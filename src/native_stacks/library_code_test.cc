#include "native_stacks/library_code.h"

#include <gtest/gtest.h>

namespace plimsoll::native_stacks {
namespace {

CodeFrame named(const char* linker_name, const char* file = "/home/u/train.cc") {
  return {.file = file, .function = "", .linker_name = linker_name, .line = 1};
}

TEST(LibraryCode, is_recognized_by_its_namespace) {
  for (const char* name :
       {"_ZN2at5zerosEN3c108ArrayRefIlEE", "_ZNK2at6Tensor3addERKS0_", "_ZN5torch2nn6LinearD2Ev",
        "_ZNSt6vectorIN2at6TensorEE9push_backEv", "_ZSt4moveIiEv", "_ZN9__gnu_cxx3fooEv",
        "_ZZN5torch2nn4testEvENKUlvE_clEv", "_ZN8plimsoll12MemoryTracer4stopEv",
        "plimsoll_libtorch_describe_allocation", "_start"}) {
    EXPECT_TRUE(is_library_code(named(name))) << name;
  }
  for (const char* name :
       {"main", "_Z4makei", "_ZN7NetImpl7forwardEN2at6TensorE", "_ZN4torc3funEv", "",
        "_ZZ4mainENKUlvE_clEv", "_ZN12_GLOBAL__N_13fooEv", "_ZN6attend3runEv", "_Z", "_ZN"}) {
    EXPECT_FALSE(is_library_code(named(name))) << name;
  }
}

TEST(LibraryCode, is_recognized_by_its_folder) {
  EXPECT_TRUE(is_library_code(named("zeros", "/v/site-packages/torch/include/ATen/ops/zeros.h")));
  EXPECT_TRUE(is_library_code(named("", "/usr/include/c++/12/bits/stl_vector.h")));
  EXPECT_TRUE(is_library_code(named("dot", "/usr/include/eigen3/Eigen/src/Core/Dot.h")));
  EXPECT_FALSE(is_library_code(named("zeros", "/home/u/torch/include/zeros.h")));
}

TEST(LibraryCode, is_recognized_by_its_object) {
  for (const char* name :
       {"libtorch_cpu.so", "libc10.so", "libc.so.6", "/opt/torch/lib/libgomp-a34.so.1"}) {
    EXPECT_TRUE(is_library_object(name)) << name;
  }
  for (const char* name : {"train", "libmodel.so", "libtorch_model.so", "libcudakernels.so"}) {
    EXPECT_FALSE(is_library_object(name)) << name;
  }
}

}  // namespace
}  // namespace plimsoll::native_stacks

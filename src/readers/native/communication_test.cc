#include "readers/native/communication.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace plimsoll::readers::native {
namespace {

const std::string kTorch = "/env/lib/python3.11/site-packages/torch";

class Communication : public testing::Test {
 protected:
  // `files` are innermost first.
  bool of_stack(const std::vector<std::string>& files) {
    std::vector<model::FrameId> frames;
    for (const std::string& file : files) {
      frames.push_back(builder_.stacks().intern_frame({builder_.strings().intern(file), {}, 1, 0}));
    }
    Place place;
    place.site.stack = builder_.stacks().intern_stack(frames);
    return is_communication(place, builder_);
  }
  bool of_operators(const char* outer, const char* inner) {
    Place place;
    place.site.op = builder_.strings().intern(outer);
    place.site.inner_op = builder_.strings().intern(inner);
    return is_communication(place, builder_);
  }

  base::Diagnostics diagnostics_;
  model::TraceBuilder builder_{diagnostics_};
};

TEST_F(Communication, includes_allocations_in_files_of_ddp_and_fsdp) {
  EXPECT_TRUE(of_stack({kTorch + "/nn/parallel/distributed.py", "train.py"}));
  EXPECT_TRUE(of_stack({kTorch + "/distributed/fsdp/_fully_shard/_fsdp_param.py", "train.py"}));
  EXPECT_TRUE(of_stack({kTorch + "/_ops.py", kTorch + "/distributed/fsdp/_collectives.py"}));
}

TEST_F(Communication, excludes_allocations_of_a_wrapped_model) {
  EXPECT_FALSE(
      of_stack({kTorch + "/nn/modules/linear.py", kTorch + "/nn/parallel/distributed.py"}));
  EXPECT_FALSE(of_stack({"model.py", kTorch + "/distributed/fsdp/_fully_shard/_fsdp_state.py"}));
  EXPECT_FALSE(of_stack({kTorch + "/distributed/tensor/_dispatch.py", "train.py"}));
  EXPECT_FALSE(of_stack({kTorch + "/_ops.py"}));
  EXPECT_FALSE(of_stack({}));
}

TEST_F(Communication, includes_allocations_of_operators_and_nodes_of_fsdp) {
  EXPECT_TRUE(of_operators("fsdp::all_gather_copy_in", "aten::empty"));
  EXPECT_TRUE(of_operators("AddmmBackward0", "fsdp::chunk_cat"));
  EXPECT_TRUE(of_operators("RegisterPostBackwardFunctionBackward", "aten::empty"));
  EXPECT_FALSE(of_operators("AddmmBackward0", "aten::empty"));
}

}  // namespace
}  // namespace plimsoll::readers::native

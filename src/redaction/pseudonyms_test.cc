#include "redaction/pseudonyms.h"

#include <gtest/gtest.h>

namespace plimsoll::redaction {
namespace {

TEST(Pseudonyms, the_same_text_has_the_same_name) {
  Pseudonyms names;
  EXPECT_EQ(names.path("/home/ann/net/model.py"), "/folder_1/folder_2/folder_3/file_1.py");
  EXPECT_EQ(names.path("/home/ann/main.py"), "/folder_1/folder_2/file_2.py");
  EXPECT_EQ(names.path("/home/ann/net/model.py"), "/folder_1/folder_2/folder_3/file_1.py");
  EXPECT_EQ(names.path("C:\\ann\\main.py"), "folder_4\\folder_2\\file_2.py");
  EXPECT_EQ(names.path("../main.py"), "../file_2.py");
}

TEST(Pseudonyms, file_names_of_torch_and_python_are_kept) {
  Pseudonyms names;
  EXPECT_EQ(names.path("/home/ann/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py"),
            "/redacted/site-packages/torch/nn/modules/linear.py");
  EXPECT_EQ(names.path("/home/ann/py/lib/python3.12/copy.py"), "/redacted/lib/python3.12/copy.py");
  EXPECT_EQ(names.path("/home/ann/v/lib/python3.12/site-packages/acme/a.py"),
            "/redacted/site-packages/folder_1/file_1.py");
  EXPECT_EQ(names.path("/tmp/torchinductor_ann/ab/cab.py"),
            "/redacted/torchinductor_user/file_2.py");
  EXPECT_EQ(names.path("<string>"), "<string>");
  EXPECT_EQ(names.path("<ipython-input-2-93c1>"), "<ipython-input-2-cell_1>");
  EXPECT_EQ(names.path("/opt/ann/libtorch_cuda.so"), "/redacted/libtorch_cuda.so");
  EXPECT_EQ(names.path("??"), "??");
}

TEST(Pseudonyms, identifiers_keep_numbers_and_common_names) {
  Pseudonyms names;
  EXPECT_EQ(names.identifiers("Net.blocks.0.weight"), "name_1.name_2.0.weight");
  EXPECT_EQ(names.identifiers("Net.forward"), "name_1.forward");
  EXPECT_EQ(names.identifiers("Net.__init__"), "name_1.__init__");
  EXPECT_EQ(names.identifiers("train.<locals>.<lambda>"), "name_3.<locals>.<lambda>");
  EXPECT_EQ(names.identifiers("conv1"), "name_4");
  EXPECT_EQ(names.identifiers("\u00e4rger"), "name_5");
  EXPECT_EQ(names.identifiers("0.1"), "0.1");
}

TEST(Pseudonyms, names_of_python_and_torch_are_kept) {
  Pseudonyms names;
  for (const char* name :
       {"list", "dict", "mat1", "Linear", "AdamW", "weight", "aten::mm", "int"}) {
    EXPECT_EQ(names.whole(name), name);
  }
  EXPECT_EQ(names.identifiers("Net.cells[3].list.mat1"), "name_1.name_2[3].list.mat1");
  EXPECT_EQ(names.whole("a list"), "name_3");
}

TEST(Pseudonyms, operators_of_torch_are_kept) {
  Pseudonyms names;
  EXPECT_EQ(names.op("aten::mm"), "aten::mm");
  EXPECT_EQ(names.op("AddmmBackward0"), "AddmmBackward0");
  EXPECT_EQ(names.op("acme::mm"), "operator_1");
  EXPECT_EQ(names.op("AcmeBackward"), "operator_2");
  EXPECT_EQ(names.op("acme::mm"), "operator_1");
}

TEST(Pseudonyms, text_with_letters_is_replaced_as_a_whole) {
  Pseudonyms names;
  EXPECT_EQ(names.whole("for customer 7"), "name_1");
  EXPECT_EQ(names.whole("(0, 1)"), "(0, 1)");
}

}  // namespace
}  // namespace plimsoll::redaction

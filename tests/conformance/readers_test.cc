// Runs every reader through the conformance suite.
#include <gtest/gtest.h>

#include "readers/kineto/kineto_reader.h"
#include "readers/native/native_reader.h"
#include "readers/oom_message/oom_message_reader.h"
#include "readers/torch_snapshot/torch_snapshot_reader.h"
#include "tests/conformance/reader_suite.h"

namespace plimsoll::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(Native, ReaderSuite,
                         testing::Values(ReaderCase{readers::native::make, "native/whole.plimsoll",
                                                    1}));
INSTANTIATE_TEST_SUITE_P(NativeWithAttachments, ReaderSuite,
                         testing::Values(ReaderCase{readers::native::make,
                                                    "native/attached.plimsoll", 1}));
INSTANTIATE_TEST_SUITE_P(Kineto, ReaderSuite,
                         testing::Values(ReaderCase{readers::kineto::make, "kineto/step.json", 1}));
INSTANTIATE_TEST_SUITE_P(OomMessage, ReaderSuite,
                         testing::Values(ReaderCase{readers::oom_message::make,
                                                    "oom_message/torch_2.txt", 1}));
INSTANTIATE_TEST_SUITE_P(TorchSnapshot, ReaderSuite,
                         testing::Values(ReaderCase{readers::torch_snapshot::make,
                                                    "snapshot/python_4.pickle"}));

}  // namespace
}  // namespace plimsoll::tests

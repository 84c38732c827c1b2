#include "exporters/digest/digest_exporter.h"

#include <gtest/gtest.h>

#include "tests/conformance/exporter_suite.h"
#include "tests/support/json_text.h"

namespace plimsoll::tests {
namespace {

INSTANTIATE_TEST_SUITE_P(Digest, ExporterSuite,
                         testing::Values(ExporterCase{exporters::digest::make, json_flaw}));

}  // namespace
}  // namespace plimsoll::tests

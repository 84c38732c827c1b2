// The version of Plimsoll, defined only here: CMake and the Python package read this line.
#pragma once

#define PLIMSOLL_VERSION "0.1.0"

// `schema_version` of `plimsoll report --json`: stable within a major version.
#define PLIMSOLL_REPORT_SCHEMA_VERSION "1.1"

// The findings of a C++ program. Rules write what Python programs do; this is what LibTorch has in
// place of it.
#pragma once

#include <string>

#include "report/finding.h"

namespace plimsoll::findings {

// "Run it under torch.no_grad()." -> "Run it under torch::NoGradGuard."
std::string in_cpp(std::string text);

// Removes next steps that need what only Python has, and puts the others into C++.
void put_into_cpp(report::Finding& finding);

}  // namespace plimsoll::findings

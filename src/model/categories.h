// The names of the categories in base/categories.h, as traces state them. Memory that no reader
// could attribute has the category kUnknownCategory or none; both mean the same.
#pragma once

#include <string_view>

#include "base/categories.h"

namespace plimsoll::model {

inline constexpr std::string_view kParameter = name_of(base::Category::kParameter);
inline constexpr std::string_view kGradient = name_of(base::Category::kGradient);
inline constexpr std::string_view kOptimizerState = name_of(base::Category::kOptimizerState);
inline constexpr std::string_view kBuffer = name_of(base::Category::kBuffer);
inline constexpr std::string_view kInput = name_of(base::Category::kInput);
inline constexpr std::string_view kWorkspace = name_of(base::Category::kWorkspace);
inline constexpr std::string_view kActivation = name_of(base::Category::kActivation);
inline constexpr std::string_view kActivationGradient =
    name_of(base::Category::kActivationGradient);
inline constexpr std::string_view kTemporaryCategory = name_of(base::Category::kTemporary);
inline constexpr std::string_view kCommunication = name_of(base::Category::kCommunication);
inline constexpr std::string_view kOptimizerScratch = name_of(base::Category::kOptimizerScratch);
inline constexpr std::string_view kPinnedHostCategory = name_of(base::Category::kPinnedHost);
inline constexpr std::string_view kOtherCategory = name_of(base::Category::kOther);
inline constexpr std::string_view kUnknownCategory = name_of(base::Category::kUnknown);

}  // namespace plimsoll::model

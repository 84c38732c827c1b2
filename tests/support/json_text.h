// JSON for tests: is it well-formed, and what does it say?
#pragma once

#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

namespace plimsoll::tests {

// What is wrong with the text; empty if it is one JSON document in UTF-8.
inline std::string json_flaw(std::string_view text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseValidateEncodingFlag>(text.data(), text.size());
  if (!document.HasParseError()) return {};
  return std::string(rapidjson::GetParseError_En(document.GetParseError())) + " at byte " +
         std::to_string(document.GetErrorOffset());
}

inline rapidjson::Document parsed_json(std::string_view text) {
  rapidjson::Document document;
  document.Parse(text.data(), text.size());
  EXPECT_FALSE(document.HasParseError()) << text;
  return document;
}

}  // namespace plimsoll::tests

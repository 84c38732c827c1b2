// The tables in docs/format.md match records.def. `PLIMSOLL_BLESS=1 format_test` regenerates them.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/block.h"
#include "format/fields.h"

namespace plimsoll::format {
namespace {

constexpr const char* kPage = PLIMSOLL_SOURCE_DIR "/docs/format.md";
constexpr std::size_t kMostListed = 4;  // named values listed per field

std::string read_page() {
  std::ifstream file(kPage);
  std::stringstream stream;
  stream << file.rdbuf();
  return stream.str();
}

std::string spaced(std::string word) {
  std::ranges::replace(word, '_', ' ');
  return word;
}

template <typename Wire>
std::string note_of() {
  std::string note;
  if constexpr (requires { Wire::kNote; }) note = Wire::kNote;
  if constexpr (requires { Wire::kNames; }) {
    const auto& names = Wire::kNames;
    for (std::size_t i = 0; names.size() <= kMostListed && i < names.size(); ++i) {
      note += (i == 0 ? ": " : ", ") + std::to_string(i) + " " + std::string(names[i]);
    }
  }
  return note;
}

// "time (zigzag), events written"
template <typename Record>
std::string fields_of() {
  std::string text;
  bool is_later_seen = false;
  visit_fields(Of<Record>(), [&](auto wire, auto, const FieldText& field) {
    if (field.label.empty()) return;
    const bool is_first_later = kIsLater<decltype(wire)> && !std::exchange(is_later_seen, true);
    if (!kIsLater<decltype(wire)>) is_later_seen = false;
    if (!text.empty()) text += is_first_later ? "; may follow: " : ", ";
    text += field.label;
    const std::string note = note_of<decltype(wire)>();
    if (!note.empty()) text += " (" + note + ")";
  });
  return text;
}

std::string row(std::initializer_list<std::string> cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + (cell.empty() ? "|" : " |");
  return text + "\n";
}

std::string definition_table() {
  std::string text = "| kind | fields (varints unless said otherwise) |\n|---|---|\n";
  const auto add = [&](int number, const char* word, const std::string& fields) {
    text += row({std::to_string(number) + " " + spaced(word), fields});
  };
#define PLIMSOLL_DEFINITION_KIND(name, word, number, fields) add(number, #word, fields);
#define PLIMSOLL_DEFINITION(Struct, method, number) add(number, #method, fields_of<Struct>());
#define PLIMSOLL_ID_DEFINITION(Struct, method, number, IdType, IdWire)                \
  {                                                                                   \
    const std::string note(wire::IdWire::kNote);                                      \
    add(number, #method,                                                              \
        "id" + (note.empty() ? "" : " (" + note + ")") + ", " + fields_of<Struct>()); \
  }
#include "format/records.def"
  return text;
}

std::string event_table() {
  std::string text = "| kind | fields | |\n|---|---|---|\n";
  const auto add = [&](int number, const char* word, const std::string& fields,
                       const char* meaning) {
    text += row({std::to_string(number) + " " + spaced(word), fields, meaning});
  };
#define PLIMSOLL_EVENT_KIND(name, word, number, fields, meaning) \
  add(number, #word, fields, meaning);
#define PLIMSOLL_EVENT(Struct, method, number, meaning) \
  add(number, #method, fields_of<Struct>(), meaning);
#include "format/records.def"
  return text;
}

std::string flag_table() {
  std::string text = "| family | bit | meaning |\n|---|---|---|\n";
  std::string family;
#define PLIMSOLL_FAMILY(Struct, method, number) family = spaced(#method);
#define PLIMSOLL_FLAG(name, bit, meaning) text += row({family, #bit, meaning});
#include "format/records.def"
  return text;
}

template <typename Record>
std::string family_rows(const std::string& family) {
  std::vector<std::pair<int, std::string>> rows;
  visit_fields(Of<Record>(), [&](auto wire, auto, const FieldText& field) {
    if (field.place == 0) return;
    rows.emplace_back(field.place,
                      row({family, std::string(field.label), note_of<decltype(wire)>()}));
  });
  std::ranges::sort(rows);
  std::string text;
  for (const auto& [place, line] : rows) text += line;
  return text;
}

std::string family_table() {
  std::string text = "| family | then | |\n|---|---|---|\n";
#define PLIMSOLL_FAMILY(Struct, method, number) text += family_rows<Struct>(spaced(#method));
#include "format/records.def"
  return text;
}

std::string state_table() {
  std::string text = "| bytes | content |\n|---|---|\n";
  std::size_t at = 0;
  visit_fields(Of<FileState>(), [&](auto wire, auto, const FieldText& field) {
    const std::size_t last = at + decltype(wire)::kBytes - 1;
    text += row({std::to_string(at) + "–" + std::to_string(last), std::string(field.label)});
    at = last + 1;
  });
  return text;
}

std::string block_list() {
  std::string text;
#define PLIMSOLL_BLOCK(name, number, word) \
  text += (text.empty() ? "" : ", ") + std::to_string(number) + " " + spaced(#word);
#include "format/records.def"
  return text;
}

// The rows of a table on the page: after its marker, up to the first line that is not a row.
constexpr const char* kMark = "<!-- records.def: ";

std::string with_table(const std::string& page, const std::string& name, const std::string& table) {
  const std::string mark = kMark + name + " -->\n\n";
  const std::size_t at = page.find(mark);
  if (at == std::string::npos) return "docs/format.md has no " + mark;
  const std::size_t first = at + mark.size();
  const std::size_t end = page.find("\n\n", first);
  return page.substr(0, first) + table + page.substr(end + 1);
}

TEST(FormatPage, has_the_tables_of_records_def) {
  const std::string page = read_page();
  std::string expected = page;
  for (const auto& [name, table] : {std::pair{"definitions", definition_table()},
                                    {"flags", flag_table()},
                                    {"families", family_table()},
                                    {"events", event_table()},
                                    {"state", state_table()}}) {
    expected = with_table(expected, name, table);
  }
  if (std::getenv("PLIMSOLL_BLESS") != nullptr) std::ofstream(kPage) << expected;
  EXPECT_EQ(page, expected) << "PLIMSOLL_BLESS=1 format_test writes the tables anew";
}

TEST(FormatPage, lists_the_blocks_and_the_fields_of_the_end_block) {
  const std::string page = std::regex_replace(read_page(), std::regex("\n"), " ");
  EXPECT_THAT(page, testing::HasSubstr("| kind: " + block_list() + "."));
  EXPECT_THAT(page, testing::HasSubstr("stopped: " + fields_of<End>() + "."));
}

}  // namespace
}  // namespace plimsoll::format

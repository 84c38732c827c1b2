// A strict reader of XML as Plimsoll writes it: no prolog, no CDATA, no comments, and only the
// predefined entities. Anything else is an error, as in a browser that opens an SVG file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"

namespace plimsoll::tests {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // without the text of its children
  std::vector<XmlElement> children;

  std::string attribute(const std::string& key) const {
    const auto found = attributes.find(key);
    return found == attributes.end() ? "" : found->second;
  }
  double number(const std::string& key) const { return std::stod(attribute(key)); }
  // All elements below with this name, in the order of the document.
  std::vector<const XmlElement*> all(std::string_view wanted) const {
    std::vector<const XmlElement*> found;
    for (const XmlElement& child : children) {
      if (child.name == wanted) found.push_back(&child);
      for (const XmlElement* deeper : child.all(wanted)) found.push_back(deeper);
    }
    return found;
  }
  std::vector<std::string> texts(std::string_view wanted) const {
    std::vector<std::string> found;
    for (const XmlElement* element : all(wanted)) found.push_back(element->text);
    return found;
  }
};

class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : text_(text) {}

  // "" if the whole text is one well-formed element.
  std::string read(XmlElement& root) {
    check_characters();
    element(root);
    while (flaw_.empty() && at_ < text_.size() && is_space(text_[at_])) ++at_;
    if (flaw_.empty() && at_ != text_.size()) fail("text after the root");
    return flaw_;
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ':';
  }

  void fail(const std::string& why) {
    if (flaw_.empty()) flaw_ = why + " at byte " + std::to_string(at_);
  }
  void check_characters() {
    std::string_view rest = text_;
    while (!rest.empty() && flaw_.empty()) {
      const std::size_t length = base::utf8_sequence_length(rest);
      if (length == 0) return fail("not UTF-8");
      const std::uint32_t point = base::code_point(rest.substr(0, length));
      if ((point < 0x20 && point != '\t' && point != '\n') || point == 0xFFFE || point == 0xFFFF) {
        return fail("a character that XML forbids");
      }
      rest.remove_prefix(length);
    }
  }
  bool take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }
  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) fail("no name");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string unescaped_until(char end) {
    std::string out;
    while (flaw_.empty()) {
      if (at_ == text_.size()) {
        fail("the text ends");
      } else if (text_[at_] == end) {
        return out;
      } else if (text_[at_] == '<') {
        fail("< in an attribute");
      } else if (text_[at_] != '&') {
        out += text_[at_++];
      } else if (take("&amp;")) {
        out += '&';
      } else if (take("&lt;")) {
        out += '<';
      } else if (take("&gt;")) {
        out += '>';
      } else if (take("&quot;")) {
        out += '"';
      } else if (take("&#39;")) {
        out += '\'';
      } else {
        fail("an unknown entity");
      }
    }
    return out;
  }
  void attribute(XmlElement& into) {
    const std::string key = name();
    if (!take("=\"")) return fail("an attribute without a quoted value");
    const std::string value = unescaped_until('"');
    ++at_;
    if (!into.attributes.emplace(key, value).second) fail("a repeated attribute");
  }
  void element(XmlElement& into) {
    if (!take("<")) return fail("no element");
    into.name = name();
    while (flaw_.empty() && take(" ")) attribute(into);
    if (!flaw_.empty() || take("/>")) return;
    if (!take(">")) return fail("a tag that does not end");
    while (flaw_.empty()) {
      into.text += unescaped_until('<');
      if (take("</")) {
        if (name() != into.name) fail("an end of another element");
        if (!take(">")) fail("an end that does not end");
        return;
      }
      if (flaw_.empty()) element(into.children.emplace_back());
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string flaw_;
};

inline std::string xml_flaw(std::string_view text) {
  XmlElement root;
  return XmlReader(text).read(root);
}

}  // namespace plimsoll::tests

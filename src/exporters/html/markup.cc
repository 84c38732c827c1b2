#include "exporters/html/markup.h"

#include "base/check.h"
#include "page/escape.h"

namespace plimsoll::exporters::html {

void Markup::tag(std::string_view name, Attributes attributes) {
  out_ += '<';
  out_ += name;
  for (const auto& [key, value] : attributes) {
    out_ += ' ';
    out_ += key;
    out_ += "=\"";
    out_ += page::escape_html(key == "src" ? value : page::shortened(value, kLongestText));
    out_ += '"';
  }
  out_ += '>';
}

Markup& Markup::open(std::string_view name, Attributes attributes) {
  tag(name, attributes);
  open_.emplace_back(name);
  return *this;
}

Markup& Markup::close() {
  out_ += "</" + open_.back() + ">";
  open_.pop_back();
  return *this;
}

Markup& Markup::text(std::string_view text) {
  out_ += page::escape_html(page::shortened(text, kLongestText));
  return *this;
}

Markup& Markup::element(std::string_view name, Attributes attributes, std::string_view content) {
  return open(name, attributes).text(content).close();
}

Markup& Markup::empty(std::string_view name, Attributes attributes) {
  tag(name, attributes);
  return *this;
}

Markup& Markup::raw(std::string_view markup) {
  out_ += markup;
  return *this;
}

std::string Markup::take() {
  PLIMSOLL_CHECK(open_.empty());
  return std::exchange(out_, {});
}

}  // namespace plimsoll::exporters::html

#include "exporters/html/markup.h"

#include <gtest/gtest.h>

namespace plimsoll::exporters::html {
namespace {

TEST(Markup, texts_and_attributes_are_escaped) {
  Markup html;
  html.open("p", {{"title", "\"<&'>\""}}).text("</p><script>").close();
  EXPECT_EQ(html.take(),
            "<p title=\"&quot;&lt;&amp;&#39;&gt;&quot;\">&lt;/p&gt;&lt;script&gt;</p>");
}

TEST(Markup, elements_close_from_the_innermost) {
  Markup html;
  html.open("ul").element("li", {}, "a").open("li").empty("br", {}).close().close();
  EXPECT_EQ(html.take(), "<ul><li>a</li><li><br></li></ul>");
}

}  // namespace
}  // namespace plimsoll::exporters::html

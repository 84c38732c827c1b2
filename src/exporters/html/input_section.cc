#include "exporters/html/sections.h"
#include "exporters/verdict.h"

namespace plimsoll::exporters::html {

void write_input_notes(Markup& html, const report::Report& report) {
  const std::vector<InputNote> notes = notes_on_input(report);
  const std::vector<Unanswered> open_questions = unanswered(report);
  if (notes.empty() && open_questions.empty()) return;
  html.open("section", {{"data-section", "diagnostics"}, {"id", "input"}});
  html.open("div", {{"class", "panels"}});
  if (!notes.empty()) {
    html.open("div", {{"class", "panel"}});
    write_head(html, "About the input", "");
    html.open("ul", {{"class", "notes"}});
    for (const InputNote& note : notes) {
      html.element("li", {{"class", note.is_severe ? "severe" : ""}}, note.text);
    }
    html.close().close();
  }
  if (!open_questions.empty()) {
    html.open("div", {{"class", "panel"}});
    write_head(html, "Not answered", "");
    html.open("ul", {{"class", "notes"}});
    for (const Unanswered& each : open_questions) {
      html.element("li", {}, each.names + ": " + each.reason);
    }
    html.close().close();
  }
  html.close().close();
}

}  // namespace plimsoll::exporters::html

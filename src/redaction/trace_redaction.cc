#include "redaction/trace_redaction.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/user_line.h"
#include "model/workspace_stack.h"
#include "redaction/pseudonyms.h"

namespace plimsoll::redaction {
namespace {

// By row of the string table: what the text is used for.
class TextUses {
 public:
  explicit TextUses(const model::Trace& trace) : trace_(trace), uses_(trace.strings.size()) {
    frames();
    sites();
    for (const model::Tensor& tensor : trace.tensors) {
      use(tensor.name, NameUse::kIdentifier);
      use(tensor.dtype, NameUse::kPublic);
      use(tensor.shape, NameUse::kPublic);
    }
    for (const model::Module& module : trace.modules) {
      use(module.path, NameUse::kIdentifier);
      use(module.type, NameUse::kIdentifier);
    }
    for (const model::HolderLink& link : trace.holders.links) {
      use(link.name, NameUse::kIdentifier);
      const bool is_node = link.kind == PLIMSOLL_LINK_GRAD_FN || link.kind == PLIMSOLL_LINK_NODE;
      use(link.type, is_node ? NameUse::kOperator : NameUse::kIdentifier);
      use(link.file, NameUse::kFile);
    }
    for (const model::Mark& mark : trace.marks) {
      const bool is_layer =
          mark.kind == model::MarkKind::kLayerBegin || mark.kind == model::MarkKind::kLayerEnd;
      use(mark.name, is_layer ? NameUse::kIdentifier : NameUse::kText);
    }
    for (const model::Annotation& annotation : trace.annotations) {
      use(annotation.name, NameUse::kAnnotation);
    }
    for (const model::DeviceTrace& device : trace.devices) {
      const std::size_t lifetimes = device.lifetimes.size();
      for (std::size_t row = 0; row < lifetimes; ++row) {
        use(device.lifetimes.category[row], NameUse::kPublic);
      }
    }
  }

  unsigned of(std::size_t row) const { return uses_[row]; }

 private:
  void use(model::StringId id, NameUse how) { uses_[id.index()] |= static_cast<unsigned>(how); }

  void frames() {
    for (std::uint32_t row = 0; row < trace_.stacks.frame_count(); ++row) {
      const model::Frame& frame = trace_.stacks.frame(model::FrameId{row});
      const std::string_view file = trace_.strings[frame.file];
      const bool is_public = model::origin_of(file) == model::FrameOrigin::kTorch ||
                             model::is_workspace_frame(trace_.strings[frame.function]);
      use(frame.file, NameUse::kFile);
      use(frame.function, is_public ? NameUse::kPublic : NameUse::kIdentifier);
      if (frame.notes == 0) continue;
      for (const auto& [key, value] : trace_.stacks.notes(frame.notes)) {
        use(key, NameUse::kPublic);
        use(value, NameUse::kText);
      }
    }
  }

  void sites() {
    for (std::uint32_t row = 0; row < trace_.sites.size(); ++row) {
      const model::Site& site = trace_.sites[model::SiteId{row}];
      use(site.category, NameUse::kPublic);
      for (const model::StringId op : {site.op, site.inner_op, site.forward_op}) {
        use(op, NameUse::kOperator);
      }
      use(site.layer, NameUse::kIdentifier);
      use(site.compile_context, NameUse::kText);
    }
  }

  const model::Trace& trace_;
  std::vector<unsigned> uses_;
};

}  // namespace

NameMap redact(model::Trace& trace, base::Diagnostics& diagnostics) {
  const TextUses uses(trace);
  Pseudonyms pseudonyms;
  std::vector<std::string> texts;
  for (std::uint32_t row = 0; row < trace.strings.size(); ++row) {
    texts.push_back(pseudonyms.of(trace.strings[model::StringId{row}], uses.of(row)));
  }
  trace.strings.replace(texts);
  trace.source.drop_lines();
  for (std::string* text : {&trace.program.command, &trace.program.host}) {
    if (!text->empty()) *text = "redacted";
  }
  base::Diagnostics redacted;
  for (const base::Diagnostic& each : diagnostics.all()) {
    redacted.add(*each.kind, each.count);
  }
  diagnostics = std::move(redacted);
  return pseudonyms.given();
}

}  // namespace plimsoll::redaction

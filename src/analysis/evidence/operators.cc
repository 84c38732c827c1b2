#include "analysis/evidence/operators.h"

#include <array>

#include "analysis/evidence/match.h"

namespace plimsoll::analysis::evidence {
namespace {

struct KnownOperator {
  Operator is_a;
  Match match;
  std::string_view name;
};

constexpr auto kKnownOperators = std::to_array<KnownOperator>({
#define OPERATOR(is_a, match, name) {Operator::is_a, Match::match, name},
#include "analysis/evidence/operators.def"
#undef OPERATOR
});

}  // namespace

OperatorSet classes_of(std::string_view op) {
  OperatorSet classes;
  for (const KnownOperator& known : kKnownOperators) {
    if (matches(known.match, op, known.name)) classes = classes | known.is_a;
  }
  return classes;
}

Operators::Operators(const model::Trace& trace) : classes_(trace.strings.size()) {
  std::vector<bool> is_done(classes_.size());
  is_done[0] = true;  // the empty string: none is recorded
  for (std::uint32_t id = 0; id < trace.sites.size(); ++id) {
    const model::Site& site = trace.sites[model::SiteId{id}];
    for (const model::StringId op : {site.op, site.inner_op, site.forward_op}) {
      if (is_done[op.index()]) continue;
      is_done[op.index()] = true;
      classes_[op.index()] = classes_of(trace.strings[op]);
    }
  }
}

}  // namespace plimsoll::analysis::evidence

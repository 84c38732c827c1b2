// The difference between two recordings, and what caused it. Link plimsoll::engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "plimsoll/result.h"
#include "plimsoll/session.h"

namespace plimsoll {

struct DiffQuestion {
  std::string at;        // only this point: "peak", "forward", "step end", "end"...; empty: all
  std::size_t top = 10;  // causes listed in a finding
};

namespace comparison {
struct Diff;
}

// Immutable.
class Difference {
 public:
  // One JSON object (plimsoll schema diff).
  std::string json() const;
  std::string text(std::size_t width = 100, bool has_color = false) const;
  // The largest growth of any point; 0 if none grew.
  std::int64_t growth_bytes() const;

  const comparison::Diff& value() const { return *diff_; }  // for the engine's own layers

 private:
  friend Result<Difference> diff(const std::string&, const std::string&, const DiffQuestion&,
                                 const ProgressCallback&);
  explicit Difference(std::shared_ptr<const comparison::Diff> diff) : diff_(std::move(diff)) {}

  std::shared_ptr<const comparison::Diff> diff_;
};

// Compares two files: each a recording that Session::open reads, or a digest, as written by
// `plimsoll export --to digest`. Errors name the path and the problem.
//
//   const auto difference = plimsoll::diff("before.plim", "after.plim");
//   if (difference.ok() && difference->growth_bytes() > 0) std::puts(difference->text().c_str());
Result<Difference> diff(const std::string& before, const std::string& after,
                        const DiffQuestion& question = {}, const ProgressCallback& progress = {});

}  // namespace plimsoll

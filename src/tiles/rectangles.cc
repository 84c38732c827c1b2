#include "tiles/rectangles.h"

#include <algorithm>

#include "tiles/point_ranks.h"

namespace plimsoll::tiles {
namespace {

// An allocation that is live at the points [first, end).
struct Span {
  std::uint32_t lifetime;
  std::uint32_t first;
  std::uint32_t end;
  std::uint64_t size_bytes;
};

// Collects the allocations that are large enough. Each has at least one rectangle, so the minimum
// size grows as soon as there are more of them than the budget allows.
class LargeSpans {
 public:
  LargeSpans(std::uint64_t min_bytes, std::size_t budget)
      : min_bytes_(std::max<std::uint64_t>(min_bytes, 1)), budget_(budget) {}

  bool is_large(std::uint64_t size_bytes) const { return size_bytes >= min_bytes_ && !none_; }
  void add(const Span& span) {
    spans_.push_back(span);
    while (spans_.size() > budget_) raise_minimum();
  }
  void raise_minimum() {
    is_raised_ = true;
    none_ = min_bytes_ > ~std::uint64_t{0} / 2;  // a hostile file: nothing is large enough
    if (!none_) min_bytes_ *= 2;
    std::erase_if(spans_, [&](const Span& span) { return !is_large(span.size_bytes); });
  }

  std::span<const Span> spans() const { return spans_; }
  std::uint64_t min_bytes() const { return min_bytes_; }
  bool is_raised() const { return is_raised_; }

 private:
  std::uint64_t min_bytes_;
  std::size_t budget_;
  bool none_ = false;
  bool is_raised_ = false;
  std::vector<Span> spans_;  // in order of birth
};

LargeSpans large_spans(const model::Trace& trace, const model::DeviceTrace& device,
                       std::span<const std::int64_t> points, std::uint64_t min_bytes,
                       std::size_t budget) {
  LargeSpans large(min_bytes, budget);
  visit_visible(device, points, [&](std::size_t row, std::uint32_t first, std::uint32_t end) {
    const std::uint64_t size_bytes = trace.lifetime_bytes(device, row);
    if (!large.is_large(size_bytes)) return;
    large.add({static_cast<std::uint32_t>(row), first, end, size_bytes});
  });
  return large;
}

// Stacks the spans and splits them where their base changes. Sums wrap: sizes may be hostile.
class Stack {
 public:
  Stack(const Groups& groups, std::size_t budget, Rectangles& out)
      : groups_(groups), budget_(budget), out_(out) {}

  // False if there are more rectangles than the budget.
  bool build(std::span<const Span> spans) {
    const std::size_t bands = out_.bands.names.size();
    out_.rectangles.clear();
    out_.rest_bytes.clear();
    base_.assign(out_.bands.points, 0);
    sort_by_band(spans, bands);
    for (std::size_t band = 0; band < bands; ++band) {
      top_ = base_;
      for (std::size_t i = begin_of_[band]; i < begin_of_[band + 1]; ++i) {
        if (!add(spans[order_[i]])) return false;
      }
      end_band(band);
    }
    return true;
  }

 private:
  // A counting sort: spans of a band stay in order of birth.
  void sort_by_band(std::span<const Span> spans, std::size_t bands) {
    begin_of_.assign(bands + 1, 0);
    for (const Span& span : spans) ++begin_of_[groups_.of[span.lifetime] + 1];
    for (std::size_t band = 0; band < bands; ++band) begin_of_[band + 1] += begin_of_[band];
    std::vector<std::size_t> next = begin_of_;
    order_.resize(spans.size());
    for (std::size_t i = 0; i < spans.size(); ++i)
      order_[next[groups_.of[spans[i].lifetime]]++] = i;
  }

  bool add(const Span& span) {
    for (std::uint32_t point = span.first; point < span.end; ++point) {
      const bool moves = point == span.first || out_.rectangles.back().base_bytes != top_[point];
      if (moves) {
        if (out_.rectangles.size() == budget_) return false;
        out_.rectangles.push_back({span.lifetime, point, point, top_[point], span.size_bytes});
      }
      out_.rectangles.back().end_point = point + 1;
      top_[point] += span.size_bytes;
    }
    return true;
  }

  void end_band(std::size_t band) {
    const auto bytes = out_.bands.of(band);
    for (std::size_t point = 0; point < bytes.size(); ++point) {
      base_[point] += bytes[point];
      out_.rest_bytes.push_back(base_[point] - top_[point]);
    }
  }

  const Groups& groups_;
  std::size_t budget_;
  Rectangles& out_;
  std::vector<std::size_t> begin_of_;  // by band: its first place in order_
  std::vector<std::size_t> order_;     // of the spans
  std::vector<std::uint64_t> base_;    // by point: the bytes of the bands below
  std::vector<std::uint64_t> top_;     // by point: the bytes below the next rectangle
};

}  // namespace

Rectangles rectangles(const model::Trace& trace, const model::DeviceTrace& device,
                      const Groups& groups, std::span<const std::int64_t> points,
                      std::uint64_t min_bytes, std::size_t budget) {
  Rectangles out;
  out.bands = bands(trace, device, groups, points);
  LargeSpans large = large_spans(trace, device, points, min_bytes, budget);
  Stack stack(groups, budget, out);
  while (!stack.build(large.spans())) large.raise_minimum();
  out.min_bytes = large.min_bytes();
  out.is_minimum_raised = large.is_raised();
  return out;
}

}  // namespace plimsoll::tiles

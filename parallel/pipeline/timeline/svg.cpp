#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/timeline/picture.hpp>

namespace sinew::parallel {
namespace {

constexpr std::size_t kMostBoxes = 20'000;
constexpr double kMargin = 12, kNames = 60, kLegend = 44, kLegendStep = 110, kHead = 56, kLane = 22, kGap = 4;
constexpr double kWidth = 1100, kLeastUnit = 6, kLongest = 4000, kLeastForText = 12;

constexpr std::string_view kStyle =
    "text{font:11px system-ui,sans-serif;fill:#1f2328}.head{font-size:14px;font-weight:600}\n"
    ".number{fill:#fff;text-anchor:middle}.paper{fill:#fff}.lane{fill:#f0f2f5}\n"
    ".forward{fill:#0072b2}.backward{fill:#009e73}.input{fill:#4aa3d8}.weight{fill:#c98a00}.again{fill:#7a7a7a}\n"
    "@media(prefers-color-scheme:dark){.paper{fill:#0d1117}.lane{fill:#21262d}text{fill:#e6edf3}}\n";

struct Look {
  ActionKind kind;
  std::string_view style;  ///< class of kStyle
  std::string_view word;
};
constexpr Look kLooks[] = {
    {ActionKind::Forward, "forward", "forward"},
    {ActionKind::Backward, "backward", "backward"},
    {ActionKind::InputGradient, "input", "input gradient"},
    {ActionKind::WeightGradient, "weight", "weight gradient"},
    {ActionKind::Recompute, "again", "recompute"},
};

const Look& look_of(ActionKind compute) { return *std::ranges::find(kLooks, compute, &Look::kind); }

/// A text between tags. What is not printable ASCII shows as a question mark.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      default: out += c >= ' ' && c <= '~' ? c : '?';
    }
  }
  return out;
}

class Drawing {
 public:
  Drawing(const PipelineSchedule& schedule, const PipelineTimeLine& line)
      : schedule_(schedule),
        line_(line),
        unit_(std::max((kWidth - kNames) / std::max<double>(1, span()), least_unit())) {}

  std::string run() {
    draw_legend();
    for (std::size_t r = 0; r < schedule_.actions.size(); ++r) draw_lane(r);
    const double width = 2 * kMargin + kNames + unit_ * span();
    const double height = top(schedule_.actions.size()) + kMargin;
    const std::string title = escaped(schedule_.name);
    std::string text = fmt::format(
        "<svg xmlns='http://www.w3.org/2000/svg' role='img' width='{0:.0f}' height='{1:.0f}' "
        "viewBox='0 0 {0:.0f} {1:.0f}'>\n<title>{2}</title>\n<style>{3}</style>\n"
        "<rect class='paper' width='{0:.0f}' height='{1:.0f}'/>\n",
        width, height, title, kStyle);
    text += fmt::format(
        "<text class='head' x='{}' y='{}'>{}: {} ranks, {} stages, {} micro-batches, time {}{}</text>\n", kMargin,
        kMargin + 12, title, schedule_.ranks(), schedule_.stages(), schedule_.micro_batches, line_.makespan,
        boxes_ > kMostBoxes ? fmt::format("; the first {} of {} boxes", kMostBoxes, boxes_) : "");
    return text + body_ + "</svg>\n";
  }

 private:
  double span() const { return static_cast<double>(line_.makespan); }
  /// Wide enough to see the shortest compute, unless the whole would be too wide.
  double least_unit() const { return span() > kLongest ? 0 : kLeastUnit; }
  double x(std::int64_t time) const { return kMargin + kNames + unit_ * static_cast<double>(time); }
  static double top(std::size_t rank) { return kHead + static_cast<double>(rank) * (kLane + kGap); }

  void draw_legend() {
    double x = kMargin + kNames;
    for (const Look& look : kLooks) {
      body_ +=
          fmt::format("<g class='{}'><rect x='{}' y='{}' width='10' height='10'/></g>", look.style, x, kLegend - 9);
      body_ += fmt::format("<text x='{}' y='{}'>{}</text>\n", x + 14, kLegend, look.word);
      x += kLegendStep;
    }
  }

  void draw_lane(std::size_t rank) {
    body_ += fmt::format("<text x='{}' y='{}'>rank {}<title>idle {} of {}</title></text>\n", kMargin, top(rank) + 15,
                         rank, line_.idle(static_cast<std::int32_t>(rank)), line_.makespan);
    body_ += fmt::format("<rect class='lane' x='{:.2f}' y='{}' width='{:.2f}' height='{}'/>\n", x(0), top(rank),
                         unit_ * span(), kLane);
    for (std::size_t i = 0; i < schedule_.actions[rank].size(); ++i) {
      const Action& a = schedule_.actions[rank][i];
      if (is_compute(a.kind) && ++boxes_ <= kMostBoxes) draw_box(a, line_.spans[rank][i], top(rank));
    }
  }

  void draw_box(const Action& a, const PipelineTimeLine::Span& span, double y) {
    const double width = unit_ * static_cast<double>(span.end - span.start);
    // The later stages of a rank are darker. All ranks of a schedule have about equally many stages.
    const double depth = static_cast<double>(a.stage / std::max(1, schedule_.ranks()) % 4);
    body_ +=
        fmt::format("<rect class='{}' x='{:.2f}' y='{}' width='{:.2f}' height='{}' style='filter:brightness({:.2f})'>",
                    look_of(a.kind).style, x(span.start), y, std::max(width - 0.5, 0.5), kLane, 1 - 0.18 * depth);
    body_ += fmt::format("<title>{}, {} to {}</title></rect>\n", to_string(a), span.start, span.end);
    if (width >= kLeastForText)
      body_ += fmt::format("<text class='number' x='{:.2f}' y='{}'>{}</text>\n", x(span.start) + width / 2, y + 15,
                           a.micro_batch);
  }

  const PipelineSchedule& schedule_;
  const PipelineTimeLine& line_;
  double unit_;  // of the drawing, per unit of time
  std::size_t boxes_ = 0;
  std::string body_;
};

}  // namespace

std::string svg_of(const PipelineSchedule& schedule, const PipelineTimeLine& line) {
  return Drawing(schedule, line).run();
}

}  // namespace sinew::parallel

#include "parts.hpp"

#include <algorithm>

namespace sinew::draw {
namespace {

constexpr double kPadding = 6;
constexpr double kGap = 5;
constexpr double kSquareGap = 3;
constexpr double kTextGap = 4;
constexpr double kHeadingLine = 15;
constexpr double kSmallHeight = 10;
constexpr double kSmallLine = 13;

struct Placed {
  const Part* part = nullptr;
  Box box;  // within the one around it
  std::vector<Placed> inside;
};

bool is_square(const Part& part) { return part.heading.empty() && part.lines.empty() && part.inside.empty(); }

double height_of_text(const Part& part) {
  return (part.heading.empty() ? 0 : kHeadingLine) + static_cast<double>(part.lines.size()) * kSmallLine +
         (part.inside.empty() ? 0 : kTextGap);
}

Placed place(const Part& part) {
  Placed placed{.part = &part};
  if (is_square(part)) {
    placed.box = {0, 0, kSquare, kSquare};
    return placed;
  }
  double width = text_width(part.heading);
  for (const std::string& line : part.lines) width = std::max(width, text_width(line, kSmallHeight));
  double x = 0, y = height_of_text(part), row_height = 0;
  for (const Part& child : part.inside) {
    Placed inner = place(child);
    const double gap = is_square(child) ? kSquareGap : kGap;
    if (x > 0 && x + inner.box.width > part.row_width) {
      y += row_height + gap;
      x = row_height = 0;
    }
    inner.box.x = kPadding + x;
    inner.box.y = kPadding + y;
    width = std::max(width, x + inner.box.width);
    x += inner.box.width + gap;
    row_height = std::max(row_height, inner.box.height);
    placed.inside.push_back(std::move(inner));
  }
  placed.box = {0, 0, width + 2 * kPadding, y + row_height + 2 * kPadding};
  return placed;
}

void draw(Svg& svg, const Placed& placed, Point around) {
  const Part& part = *placed.part;
  const Point at{around.x + placed.box.x, around.y + placed.box.y};
  svg.box({at.x, at.y, placed.box.width, placed.box.height}, part.classes, part.tooltip);
  double y = at.y + kPadding;
  if (!part.heading.empty()) svg.text({at.x + kPadding, (y += kHeadingLine) - 4}, part.heading);
  for (const std::string& line : part.lines) svg.text({at.x + kPadding, (y += kSmallLine) - 3}, line, "faint small");
  for (const Placed& inner : placed.inside) draw(svg, inner, at);
}

}  // namespace

std::string draw_parts(const Part& outermost, std::string_view title) {
  constexpr double kMargin = 8;
  const Placed placed = place(outermost);
  Svg svg(placed.box.width + 2 * kMargin, placed.box.height + 2 * kMargin, title);
  draw(svg, placed, {kMargin, kMargin});
  return svg.text_of_file();
}

}  // namespace sinew::draw

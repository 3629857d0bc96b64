#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinew::draw {

/// Units: of the drawing, in which text is 12 high; y goes down.
struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

/// Which end of a text is at its point.
enum class Anchor : unsigned char { Start, Middle, End };

/// One drawing, for browsers without a network: no scripts, fonts or links from elsewhere. `classes` are those of
/// style_sheet(); a tooltip is shown where the pointer rests. Text may hold anything. The same calls give the same
/// bytes.
class Svg {
 public:
  Svg(double width, double height, std::string_view title);
  ~Svg();
  Svg(const Svg&) = delete;
  Svg& operator=(const Svg&) = delete;

  void box(const Box& box, std::string_view classes, std::string_view tooltip = {});
  void line(Point from, Point to, std::string_view classes, std::string_view tooltip = {});
  /// Points joined by lines.
  void path(std::span<const Point> points, std::string_view classes, std::string_view tooltip = {});
  void dot(Point at, double radius, std::string_view classes, std::string_view tooltip = {});
  void text(Point at, std::string_view text, std::string_view classes = "ink", Anchor anchor = Anchor::Start);

  /// The file.
  std::string text_of_file() const;

 private:
  struct Document;
  std::unique_ptr<Document> document_;
};

/// What a text takes at most, roughly: fonts differ from browser to browser.
double text_width(std::string_view text, double height = 12);

/// A text in lines of that width at most, broken after a comma where one has any. A longer word has a line of its own.
std::vector<std::string> wrapped(std::string_view text, double width, double height = 12);

}  // namespace sinew::draw

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinew::test {

/// An element of an SVG file.
struct Shape {
  std::string element;  ///< "rect", "text", ...
  std::vector<std::string> classes;
  std::string text;  ///< of a text
  std::string tooltip;
  double x = 0, y = 0;  ///< of a circle its middle; a line has those of the box around it
  double width = 0, height = 0;

  bool is(std::string_view name) const;  ///< has this class
};

/// Is `inner` within `outer`, its edges too?
bool holds(const Shape& outer, const Shape& inner);

/// Fails the test if the file is not well-formed XML of one <svg>.
std::vector<Shape> shapes_of(const std::string& svg);
std::vector<Shape> shapes_of(const std::string& svg, std::string_view name);  ///< of that class

/// The file's text; fails the test if there is none.
std::string text_of(const std::string& path);

}  // namespace sinew::test

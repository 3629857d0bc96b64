#include "drawing.hpp"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>
#include <pugixml.hpp>

#include <sinew/core/system/file_text.hpp>

namespace sinew::test {

bool Shape::is(std::string_view name) const { return std::ranges::find(classes, name) != classes.end(); }

bool holds(const Shape& outer, const Shape& inner) {
  return inner.x >= outer.x && inner.y >= outer.y && inner.x + inner.width <= outer.x + outer.width &&
         inner.y + inner.height <= outer.y + outer.height;
}

std::vector<Shape> shapes_of(const std::string& svg) {
  pugi::xml_document xml;
  const pugi::xml_parse_result result = xml.load_string(svg.c_str());
  EXPECT_TRUE(result) << result.description() << " at " << result.offset;
  EXPECT_STREQ(xml.document_element().name(), "svg");
  std::vector<Shape> shapes;
  for (const pugi::xml_node node : xml.document_element().children()) {
    if (node.attribute("class").empty()) continue;
    const bool round = std::string_view(node.name()) == "circle";
    Shape& shape = shapes.emplace_back(Shape{.element = node.name(),
                                             .text = node.text().get(),
                                             .tooltip = node.child("title").text().get(),
                                             .x = node.attribute(round ? "cx" : "x").as_double(),
                                             .y = node.attribute(round ? "cy" : "y").as_double(),
                                             .width = node.attribute("width").as_double(),
                                             .height = node.attribute("height").as_double()});
    if (shape.element == "line") {
      const auto [left, right] = std::minmax({node.attribute("x1").as_double(), node.attribute("x2").as_double()});
      const auto [top, bottom] = std::minmax({node.attribute("y1").as_double(), node.attribute("y2").as_double()});
      shape.x = left;
      shape.y = top;
      shape.width = right - left;
      shape.height = bottom - top;
    }
    std::istringstream classes(node.attribute("class").value());
    for (std::string name; classes >> name;) shape.classes.push_back(name);
  }
  return shapes;
}

std::vector<Shape> shapes_of(const std::string& svg, std::string_view name) {
  std::vector<Shape> shapes = shapes_of(svg);
  std::erase_if(shapes, [&](const Shape& s) { return !s.is(name); });
  return shapes;
}

std::string text_of(const std::string& path) {
  const auto text = file_text(path);
  EXPECT_TRUE(text) << path;
  return text.value_or("");
}

}  // namespace sinew::test

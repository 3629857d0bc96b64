#include "svg.hpp"

#include <cmath>
#include <sstream>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "printable.hpp"
#include "style.hpp"

namespace sinew::draw {
namespace {

/// Two decimals at most: a hundredth of a pixel.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

void put(pugi::xml_node node, const char* name, double value) { node.append_attribute(name) = number(value).c_str(); }

}  // namespace

struct Svg::Document {
  pugi::xml_document xml;
  pugi::xml_node root;

  pugi::xml_node add(const char* element, std::string_view classes, std::string_view tooltip) {
    pugi::xml_node node = root.append_child(element);
    node.append_attribute("class") = std::string(classes).c_str();
    if (!tooltip.empty()) node.append_child("title").text() = printable(tooltip).c_str();
    return node;
  }
};

Svg::Svg(double width, double height, std::string_view title) : document_(std::make_unique<Document>()) {
  pugi::xml_node& root = document_->root = document_->xml.append_child("svg");
  root.append_attribute("xmlns") = "http://www.w3.org/2000/svg";
  put(root, "width", width);
  put(root, "height", height);
  root.append_attribute("viewBox") = fmt::format("0 0 {} {}", number(width), number(height)).c_str();
  root.append_attribute("role") = "img";
  root.append_child("title").text() = printable(title).c_str();
  root.append_child("style").text() = std::string(style_sheet()).c_str();
  box({0, 0, width, height}, "paper");
}

Svg::~Svg() = default;

void Svg::box(const Box& box, std::string_view classes, std::string_view tooltip) {
  pugi::xml_node node = document_->add("rect", classes, tooltip);
  put(node, "x", box.x);
  put(node, "y", box.y);
  put(node, "width", box.width);
  put(node, "height", box.height);
}

void Svg::line(Point from, Point to, std::string_view classes, std::string_view tooltip) {
  pugi::xml_node node = document_->add("line", classes, tooltip);
  put(node, "x1", from.x);
  put(node, "y1", from.y);
  put(node, "x2", to.x);
  put(node, "y2", to.y);
}

void Svg::path(std::span<const Point> points, std::string_view classes, std::string_view tooltip) {
  std::string list;
  for (const Point& p : points) list += fmt::format("{}{},{}", list.empty() ? "" : " ", number(p.x), number(p.y));
  document_->add("polyline", classes, tooltip).append_attribute("points") = list.c_str();
}

void Svg::dot(Point at, double radius, std::string_view classes, std::string_view tooltip) {
  pugi::xml_node node = document_->add("circle", classes, tooltip);
  put(node, "cx", at.x);
  put(node, "cy", at.y);
  put(node, "r", radius);
}

void Svg::text(Point at, std::string_view text, std::string_view classes, Anchor anchor) {
  pugi::xml_node node = document_->add("text", classes, {});
  put(node, "x", at.x);
  put(node, "y", at.y);
  if (anchor != Anchor::Start) node.append_attribute("text-anchor") = anchor == Anchor::End ? "end" : "middle";
  node.text() = printable(text).c_str();
}

std::string Svg::text_of_file() const {
  std::ostringstream out;
  document_->xml.save(out, "", pugi::format_indent, pugi::encoding_utf8);
  return out.str();
}

double text_width(std::string_view text, double height) {
  constexpr double kOfHeight = 0.56;
  int characters = 0;
  for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return characters * height * kOfHeight;
}

std::vector<std::string> wrapped(std::string_view text, double width, double height) {
  std::vector<std::string> lines;
  while (text_width(text, height) > width) {
    std::size_t cut = text.npos;
    bool after_comma = false;
    for (std::size_t i = text.find(' ', 1); i != text.npos; i = text.find(' ', i + 1)) {
      if (cut != text.npos && text_width(text.substr(0, i), height) > width) break;
      const bool comma = text[i - 1] == ',';
      if (after_comma && !comma) continue;
      cut = i;
      after_comma = comma;
    }
    if (cut == text.npos) break;
    lines.emplace_back(text.substr(0, cut));
    text.remove_prefix(cut + 1);
  }
  lines.emplace_back(text);
  return lines;
}

}  // namespace sinew::draw

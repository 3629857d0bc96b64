#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/base/parse_number.hpp>
#include <sinew/core/error.hpp>
#include <sinew/topology/format/xml_reader.hpp>

namespace sinew {

XmlReader::XmlReader(std::string_view text, std::string file) : file_(std::move(file)) {
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1))
    line_ends_.push_back(at);
  const pugi::xml_parse_result result =
      document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}:{}: not XML: {}", file_, line_at(result.offset), result.description()));
  }
}

pugi::xml_node XmlReader::root() const {
  const pugi::xml_node root = document_.document_element();
  read_.insert(root.internal_object());
  return root;
}

std::vector<pugi::xml_node> XmlReader::children(pugi::xml_node parent, const char* name) const {
  std::vector<pugi::xml_node> found;
  for (const pugi::xml_node child : parent.children(name)) {
    read_.insert(child.internal_object());
    found.push_back(child);
  }
  return found;
}

void XmlReader::reject(pugi::xml_node node, std::string_view problem) const {
  throw Error(Code::InvalidArgument, fmt::format("{}:{}: <{}>: {}", file_, line_of(node), node.name(), problem));
}

pugi::xml_attribute XmlReader::read(pugi::xml_node node, const char* name) const {
  const pugi::xml_attribute attribute = node.attribute(name);
  if (attribute) read_.insert(attribute.internal_object());
  return attribute;
}

std::string XmlReader::required_text(pugi::xml_node node, const char* name) const {
  const pugi::xml_attribute attribute = read(node, name);
  if (!attribute) reject(node, fmt::format("expected an attribute {}", name));
  return attribute.value();
}

std::optional<long long> XmlReader::integer(pugi::xml_node node, const char* name, long long least,
                                            long long most) const {
  const pugi::xml_attribute attribute = read(node, name);
  if (!attribute) return std::nullopt;
  const std::string_view written = attribute.value();
  const bool hex = written.starts_with("0x");
  const std::string_view digits = written.substr(hex ? 2 : 0);
  const auto value = parse_number<long long>(digits, hex ? 16 : 10);
  if (!value || *value < least || *value > most) {
    reject(node, fmt::format("{}=\"{}\": expected an integer from {} to {}", name, written, least, most));
  }
  return value;
}

long long XmlReader::required_integer(pugi::xml_node node, const char* name, long long least, long long most) const {
  const auto value = integer(node, name, least, most);
  if (!value) reject(node, fmt::format("expected an attribute {}", name));
  return *value;
}

std::vector<UnreadXml> XmlReader::unread() const {
  std::vector<UnreadXml> list;
  list_unread(document_, list);
  return list;
}

void XmlReader::list_unread(pugi::xml_node parent, std::vector<UnreadXml>& list) const {
  using Kind = UnreadXml::Kind;
  for (const pugi::xml_node node : parent.children()) {
    if (skipped_.contains(node.internal_object())) continue;
    if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata) {
      const std::size_t spaces = std::string_view(node.value()).find_first_not_of(" \t\r\n");
      const int line = line_at(node.offset_debug() + static_cast<std::ptrdiff_t>(spaces));
      list.push_back({Kind::Text, line, parent.parent().name(), parent.name(), ""});
    } else if (node.type() == pugi::node_element && !read_.contains(node.internal_object())) {
      list.push_back({Kind::Element, line_of(node), parent.name(), node.name(), ""});
    } else if (node.type() == pugi::node_element) {
      for (const pugi::xml_attribute attribute : node.attributes()) {
        if (read_.contains(attribute.internal_object())) continue;
        // pugixml parses in place: names lie in its copy of the text as far apart as in the text.
        const int line = line_at(node.offset_debug() + (attribute.name() - node.name()));
        const bool again = node.attribute(attribute.name()) != attribute;
        list.push_back(
            {again ? Kind::AttributeTwice : Kind::Attribute, line, parent.name(), node.name(), attribute.name()});
      }
      list_unread(node, list);
    }
  }
}

int XmlReader::line_at(std::ptrdiff_t offset) const {
  const std::size_t passed = offset < 0 ? 0 : static_cast<std::size_t>(offset);
  return 1 + static_cast<int>(std::ranges::lower_bound(line_ends_, passed) - line_ends_.begin());
}

}  // namespace sinew

#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/parse_number.hpp>
#include <sinew/topology/xml_reader.hpp>

namespace sinew {

XmlReader::XmlReader(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {
  const pugi::xml_parse_result result =
      document_.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!result) {
    throw Error(Code::InvalidArgument,
                fmt::format("{}:{}: not XML: {}", file_, line_of(result.offset), result.description()));
  }
}

void XmlReader::reject(pugi::xml_node node, std::string_view problem) const {
  throw Error(Code::InvalidArgument,
              fmt::format("{}:{}: <{}>: {}", file_, line_of(node.offset_debug()), node.name(), problem));
}

std::string XmlReader::required_text(pugi::xml_node node, const char* name) const {
  const pugi::xml_attribute attribute = node.attribute(name);
  if (!attribute) reject(node, fmt::format("expected an attribute {}", name));
  return attribute.value();
}

std::optional<long long> XmlReader::integer(pugi::xml_node node, const char* name, long long least,
                                            long long most) const {
  const pugi::xml_attribute attribute = node.attribute(name);
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

std::size_t XmlReader::line_of(std::ptrdiff_t offset) const {
  const auto passed = std::clamp<std::size_t>(offset < 0 ? 0 : static_cast<std::size_t>(offset), 0, text_.size());
  return 1 +
         static_cast<std::size_t>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(passed), '\n'));
}

}  // namespace sinew

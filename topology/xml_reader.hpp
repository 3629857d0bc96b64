#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <pugixml.hpp>

namespace sinew {

/// A file of XML whose errors name file and line; for the readers in this folder.
class XmlReader {
 public:
  /// Errors: Error{InvalidArgument} "FILE:LINE: not XML: ...".
  XmlReader(std::string_view text, std::string file);

  pugi::xml_node root() const { return document_.document_element(); }

  /// Throws Error{InvalidArgument} "FILE:LINE: <pci>: PROBLEM".
  [[noreturn]] void reject(pugi::xml_node node, std::string_view problem) const;

  /// An attribute; empty where it is absent.
  static std::string text(pugi::xml_node node, const char* name) { return node.attribute(name).value(); }
  std::string required_text(pugi::xml_node node, const char* name) const;

  /// Decimal, or hexadecimal after 0x. nullopt where the attribute is absent; anything else outside of `least`..`most`
  /// is rejected.
  std::optional<long long> integer(pugi::xml_node node, const char* name, long long least, long long most) const;
  long long required_integer(pugi::xml_node node, const char* name, long long least, long long most) const;

 private:
  std::size_t line_of(std::ptrdiff_t offset) const;

  std::string text_;
  std::string file_;
  pugi::xml_document document_;
};

}  // namespace sinew

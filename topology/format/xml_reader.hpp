#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <pugixml.hpp>

namespace sinew {

/// Something in a file of XML that its reader never asked for.
struct UnreadXml {
  enum class Kind : std::uint8_t {
    Element,         ///< with all that it holds
    Attribute,       ///< of an element that was read
    AttributeTwice,  ///< the same name again in one element: only the first counts
    Text             ///< between the tags of an element that was read
  };
  Kind kind = Kind::Element;
  int line = 1;
  std::string parent;     ///< name of the element around `element`; empty: the file's top level
  std::string element;    ///< name
  std::string attribute;  ///< name
};

/// A file of XML whose errors name file and line; for the readers in this folder. It notes which elements and which
/// attributes it was asked for, so that its user can name the others.
class XmlReader {
 public:
  /// Errors: Error{InvalidArgument} "FILE:LINE: not XML: ...".
  XmlReader(std::string_view text, std::string file);

  /// Counts as read.
  pugi::xml_node root() const;
  /// The children of this name; they count as read.
  std::vector<pugi::xml_node> children(pugi::xml_node parent, const char* name) const;
  /// The element and all that it holds count as read.
  void skip(pugi::xml_node node) const { skipped_.insert(node.internal_object()); }
  int line_of(pugi::xml_node node) const { return line_at(node.offset_debug()); }

  /// Throws Error{InvalidArgument} "FILE:LINE: <pci>: PROBLEM".
  [[noreturn]] void reject(pugi::xml_node node, std::string_view problem) const;

  /// An attribute; empty where it is absent. It counts as read, as with the functions below.
  std::string text(pugi::xml_node node, const char* name) const { return read(node, name).value(); }
  std::string required_text(pugi::xml_node node, const char* name) const;

  /// Decimal, or hexadecimal after 0x. nullopt where the attribute is absent; anything else outside of `least`..`most`
  /// is rejected.
  std::optional<long long> integer(pugi::xml_node node, const char* name, long long least, long long most) const;
  long long required_integer(pugi::xml_node node, const char* name, long long least, long long most) const;

  /// What has not been read so far, in the order of the file. What is in an unread element is not listed again.
  std::vector<UnreadXml> unread() const;

 private:
  pugi::xml_attribute read(pugi::xml_node node, const char* name) const;
  int line_at(std::ptrdiff_t offset) const;
  void list_unread(pugi::xml_node parent, std::vector<UnreadXml>& list) const;

  std::string file_;
  std::vector<std::size_t> line_ends_;  ///< offsets of the newlines in the text
  pugi::xml_document document_;
  mutable std::unordered_set<const void*> read_;     ///< elements and attributes, by their address in document_
  mutable std::unordered_set<const void*> skipped_;  ///< elements
};

}  // namespace sinew

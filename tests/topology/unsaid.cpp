#include "unsaid.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <pugixml.hpp>

#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

using Read = std::function<Machine(const std::string&)>;

/// What a reader made of a file: the Machine without its list, and how often the list names what.
struct ReadOutcome {
  Machine model;
  std::map<std::string, std::size_t> listed;
  friend bool operator==(const ReadOutcome&, const ReadOutcome&) = default;
};

/// `without_first`, `without_last`: lines whose entries in the list do not count.
ReadOutcome outcome_of(Machine machine, int without_first = 0, int without_last = -1) {
  ReadOutcome outcome;
  for (const Ignored& one : machine.ignored) {
    const auto counts = [&](int line) { return line < without_first || line > without_last; };
    if (const auto n = std::ranges::count_if(one.lines, counts); n > 0)
      outcome.listed[one.what] += static_cast<std::size_t>(n);
  }
  machine.ignored.clear();
  outcome.model = std::move(machine);
  return outcome;
}

/// nullopt: refused.
std::optional<ReadOutcome> outcome_of(const std::string& xml, const Read& read) {
  try {
    return outcome_of(read(xml));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Asks the same questions of each part of a file.
class Accountant {
 public:
  Accountant(const std::string& xml, const AttributeValues& values, const Read& read)
      : xml_(xml), values_(values), read_(read), whole_(read(xml)) {
    document_.load_string(xml.c_str());
  }

  Account account() {
    walk(document_, false);
    return std::move(account_);
  }

 private:
  int line_at(std::size_t offset) const {
    return 1 + static_cast<int>(std::count(xml_.begin(), xml_.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
  }
  int line_of(pugi::xml_node node) const { return line_at(static_cast<std::size_t>(node.offset_debug())); }

  /// Of the file's lines, the last that has something of the element.
  int last_line_of(pugi::xml_node node) const {
    int last = line_of(node);
    for (const pugi::xml_node child : node.children()) last = std::max(last, last_line_of(child));
    return last;
  }
  /// Of a text: its first word's.
  int line_of_text(pugi::xml_node node) const {
    return line_at(xml_.find_first_not_of(" \t\r\n", static_cast<std::size_t>(node.offset_debug())));
  }

  /// Of an attribute: the `nth` of its name in the tag.
  int line_of(pugi::xml_node node, const std::string& attribute, int nth) const {
    std::size_t at = static_cast<std::size_t>(node.offset_debug());
    for (;; ++at) {
      at = xml_.find(attribute + "=", at);
      const bool is_word = std::string_view(" \n\t").find(xml_[at - 1]) != std::string_view::npos;
      if (is_word && nth-- == 0) return line_at(at);
    }
  }

  bool is_listed(std::string_view what, int line, bool whole_name = true) const {
    return std::ranges::any_of(whole_.ignored, [&](const Ignored& one) {
      const bool names = whole_name ? one.what == what
                                    : one.what.find(what) != std::string::npos && !one.what.starts_with("attribute ") &&
                                          !one.what.starts_with("text ");
      return names && std::ranges::find(one.lines, line) != one.lines.end();
    });
  }

  bool makes_a_difference() const {
    std::ostringstream changed;
    document_.save(changed);
    const auto other = outcome_of(changed.str(), read_);
    return !other || other->model != outcome_of(whole_).model;
  }

  void enter(bool listed, bool in_model, int line, const std::string& what) {
    ++account_.parts;
    if (listed) {
      ++account_.listed;
    } else if (in_model) {
      ++account_.in_model;
    } else {
      account_.unsaid.push_back(fmt::format("line {}: {}", line, what));
    }
  }

  void walk(pugi::xml_node parent, bool within_listed) {
    std::vector<pugi::xml_node> children(parent.begin(), parent.end());
    for (pugi::xml_node node : children) {
      if (node.type() == pugi::node_pcdata) {
        const std::string what = fmt::format("text in <{}>", parent.name());
        enter(within_listed || is_listed(what, line_of_text(node)), false, line_of_text(node), what);
      }
      if (node.type() != pugi::node_element) continue;
      const std::string name = fmt::format("<{}>", node.name());
      const bool listed = within_listed || is_listed(name, line_of(node), false);
      enter(listed, !listed && differs_without(node), line_of(node), name);
      attributes(node, listed);
      walk(node, listed);
    }
  }

  /// In a copy: the offsets of the document are needed on.
  bool differs_without(pugi::xml_node node) const {
    pugi::xml_document copy;
    copy.reset(document_);
    pugi::xml_node there = copy;
    for (const std::size_t step : path_to(node)) {
      there = *std::next(there.begin(), static_cast<std::ptrdiff_t>(step));
    }
    there.parent().remove_child(there);
    std::ostringstream changed;
    copy.save(changed);
    // What the list says of the element itself goes with it; what it says of others may stay the same.
    return outcome_of(changed.str(), read_) != std::optional(outcome_of(whole_, line_of(node), last_line_of(node)));
  }

  static std::vector<std::size_t> path_to(pugi::xml_node node) {
    std::vector<std::size_t> path;
    for (; node.parent(); node = node.parent()) {
      const pugi::xml_node parent = node.parent();
      path.push_back(static_cast<std::size_t>(std::distance(parent.begin(), std::ranges::find(parent, node))));
    }
    std::ranges::reverse(path);
    return path;
  }

  void attributes(pugi::xml_node node, bool within_listed) {
    std::map<std::string, int> count;
    for (pugi::xml_attribute attribute : node.attributes()) {
      const int line = line_of(node, attribute.name(), count[attribute.name()]++);
      const std::string what = fmt::format("attribute {} of <{}>", attribute.name(), node.name());
      const bool listed = within_listed || is_listed(what, line);
      enter(listed, !listed && differs_with_other_values(node, attribute), line, what);
    }
  }

  bool differs_with_other_values(pugi::xml_node node, pugi::xml_attribute attribute) {
    const std::string own = attribute.value();
    const auto others = values_.find({node.name(), attribute.name()});
    bool differs = false;
    for (const std::string& value : others == values_.end() ? std::set<std::string>{} : others->second) {
      if (value == own) continue;
      attribute.set_value(value.c_str());
      differs = differs || makes_a_difference();
    }
    attribute.set_value(own.c_str());
    return differs;
  }

  const std::string& xml_;
  const AttributeValues& values_;
  const Read& read_;
  Machine whole_;
  pugi::xml_document document_;
  Account account_;
};

void collect_below(pugi::xml_node parent, AttributeValues& values) {
  for (const pugi::xml_node node : parent.children()) {
    for (const pugi::xml_attribute attribute : node.attributes())
      values[{node.name(), attribute.name()}].insert(attribute.value());
    collect_below(node, values);
  }
}

}  // namespace

void collect_values(const std::string& xml, AttributeValues& values) {
  pugi::xml_document document;
  document.load_string(xml.c_str());
  collect_below(document, values);
}

Account account_of(const std::string& xml, const AttributeValues& values, const Read& read) {
  return Accountant(xml, values, read).account();
}

}  // namespace sinew::test

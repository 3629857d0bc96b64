#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sinew/topology/machine.hpp>

namespace sinew::test {

/// The values that each attribute has in some files, by element and attribute.
using AttributeValues = std::map<std::pair<std::string, std::string>, std::set<std::string>>;
void collect_values(const std::string& xml, AttributeValues& values);

/// What became of the elements, attributes and texts of a file of XML.
struct Account {
  int parts = 0;     ///< that the file has
  int listed = 0;    ///< that Machine::ignored names, with their lines; or are in an element that it names
  int in_model = 0;  ///< that are in no list, and without which, or with another value, the Machine is another
  std::vector<std::string> unsaid;  ///< all others: "line 5: attribute slot of <pci>"
};

/// Removes each part of `xml` in turn, gives each attribute each of its `values`, and compares what `read` makes of the
/// file; an error that was not there before counts as a difference. It knows nothing about how the reader works.
Account account_of(const std::string& xml, const AttributeValues& values,
                   const std::function<Machine(const std::string&)>& read);

}  // namespace sinew::test

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinew/topology/machine.hpp>

namespace sinew {

/// Collects what a reader leaves out of one file, for Machine::ignored: each kind once, with all its lines.
class IgnoredList {
 public:
  explicit IgnoredList(std::string file) : file_(std::move(file)) {}

  /// `known`: the reader knows what it means. `what` may hold bytes from the file: control characters become '?'.
  void add(int line, std::string_view what, std::string_view why, bool known);

  /// In the order of the first lines.
  std::vector<Ignored> take();

 private:
  std::string file_;
  std::map<std::pair<std::string, std::string>, std::size_t> index_;  ///< by what and why
  std::vector<Ignored> list_;
};

/// Logs one warning that names what the reader of `file` did not know, with lines; none where all is known.
void warn_of_unknown(const std::vector<Ignored>& ignored, std::string_view file);

}  // namespace sinew

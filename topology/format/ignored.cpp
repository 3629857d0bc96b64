#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/log.hpp>
#include <sinew/topology/format/ignored.hpp>
#include <sinew/topology/format/text/part_text.hpp>

namespace sinew {

void IgnoredList::add(int line, std::string_view what, std::string_view why, bool known) {
  std::string shown(what);
  std::ranges::replace_if(
      shown, [](unsigned char c) { return std::iscntrl(c) != 0; }, '?');
  const auto [at, is_new] = index_.try_emplace({shown, std::string(why)}, list_.size());
  if (is_new) list_.push_back({file_, {}, std::move(shown), std::string(why), known});
  list_[at->second].lines.push_back(line);
}

std::vector<Ignored> IgnoredList::take() {
  for (Ignored& one : list_) std::ranges::sort(one.lines);
  std::ranges::stable_sort(list_, {}, [](const Ignored& one) { return one.lines.front(); });
  index_.clear();
  return std::exchange(list_, {});
}

void warn_of_unknown(const std::vector<Ignored>& ignored, std::string_view file) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> unknown;
  for (const Ignored& one : ignored) {
    if (!one.known && one.file == file) unknown.push_back(fmt::format("{} ({})", one.what, line_list(one.lines)));
  }
  if (unknown.empty()) return;
  const std::size_t more = unknown.size() - std::min(unknown.size(), kMost);
  unknown.resize(unknown.size() - more);
  log::warning("{}: not understood, and left out: {}{}; sinew-info topology --json lists all that is left out", file,
               fmt::join(unknown, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace sinew

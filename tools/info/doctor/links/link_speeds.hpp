#pragma once

#include <span>
#include <string>
#include <vector>

#include "link_probe.hpp"

namespace sinew::doctor {

struct SlowLink {
  const LinkResult* link = nullptr;
  std::string found;  ///< its figure and the median
};

/// Finds links that carry less than half of the median, or take more than three times as long to answer. The median is
/// that of all links that carry in networks with the same prefix. Links of different networks are not compared, because
/// networks may differ on purpose.
std::vector<SlowLink> slow_links(std::span<const LinkResult> results);

/// "6 ways carry: 118 MB/s to 121 MB/s, round trips of 40.1 us to 52.2 us".
std::string speeds_text(std::span<const LinkResult> results);

}  // namespace sinew::doctor

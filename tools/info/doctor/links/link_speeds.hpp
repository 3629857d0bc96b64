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

/// Links that carry less than half, or take more than thrice as long to answer, of the median of all that carry in
/// networks with the same prefix. Links of different networks are not compared: they may be made to differ.
std::vector<SlowLink> slow_links(std::span<const LinkResult> results);

/// "6 ways carry: 118 MB/s to 121 MB/s, round trips of 40.1 us to 52.2 us".
std::string speeds_text(std::span<const LinkResult> results);

}  // namespace sinew::doctor

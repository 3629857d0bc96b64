#pragma once

#include <functional>
#include <vector>

#include <sinew/core/base/exchange.hpp>

#include "link_probe.hpp"

namespace sinew::doctor {

/// Measures links that look slow again, each alone, a few times, until they do not: who is measured while another
/// process has taken the core looks slow, too. All ranks call it together, with equal `results`, and end with equal
/// ones. `host`: this rank's; -1: it only waits. `probe`: called on the host that the link leads from.
/// Cost: three rounds of at most 16 probes, the first found; no round where nothing looks slow.
void repeat_slow_links(const Exchange& exchange, int host, std::vector<LinkResult>& results,
                       const std::function<LinkResult(const LinkResult&)>& probe);

}  // namespace sinew::doctor

#pragma once

#include <functional>
#include <vector>

#include <sinew/core/base/exchange.hpp>

#include "link_probe.hpp"

namespace sinew::doctor {

/// Measures links that look slow again, each alone, until they look slow no more or have been tried a few times. A link
/// also looks slow if another process has taken the core meanwhile. All ranks call it together, with equal `results`,
/// and end with equal results. `host`: this rank's; -1: it only waits. `probe`: called on the host where the link
/// begins.
/// Cost: three rounds of at most 16 probes, the first that are found; no round where nothing looks slow.
void repeat_slow_links(const Exchange& exchange, int host, std::vector<LinkResult>& results,
                       const std::function<LinkResult(const LinkResult&)>& probe);

}  // namespace sinew::doctor

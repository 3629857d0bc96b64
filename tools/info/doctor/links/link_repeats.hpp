#pragma once

#include <functional>
#include <vector>

#include <sinew/core/base/exchange.hpp>

#include "link_probe.hpp"

namespace sinew::doctor {

/// Repeats the probes of links that look slow, one at a time. A link also looks slow if another process took the core
/// during its probe. All ranks call this function together, with equal `results`, and end with equal results.
/// `host`: the host of this rank; -1: this rank only waits. `probe`: called on the host where the link begins.
/// Cost: up to three rounds, each of the first 16 links that look slow. Nothing if no link looks slow.
void repeat_slow_links(const Exchange& exchange, int host, std::vector<LinkResult>& results,
                       const std::function<LinkResult(const LinkResult&)>& probe);

}  // namespace sinew::doctor

#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <vector>

#include <sinew/core/base/exchange.hpp>

namespace sinew::test {

/// What every rank runs. An exception or a failed expectation fails the test, with the rank's number.
using RankBody = std::function<void(const Exchange& world)>;

/// One thread per rank.
void run_as_threads(int ranks, const RankBody& body, Duration timeout = std::chrono::seconds(60));

/// One forked process per rank, with this process as the hub of their exchange. Returns the wait status of each.
/// A rank whose body returns normally leaves with _exit: no destructors of this process run twice. What still runs, or
/// is stopped, after `bound` is killed.
std::vector<int> fork_ranks(int ranks, const RankBody& body, Duration bound = std::chrono::seconds(120));

/// fork_ranks, and every rank must end well.
void run_as_processes(int ranks, const RankBody& body);

}  // namespace sinew::test

#pragma once

#include <functional>
#include <source_location>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>

namespace sinew::test {

using Body = std::function<void(World&)>;

/// The transports that were built and carry messages between processes of a host.
std::vector<const char*> transports_between_processes();

/// Options that reach the given transports only, with a timeout that turns a hang into a failure.
WorldOptions only(const std::string& transports);

/// Runs `body` as every rank of a world of threads; what any of them throws fails the test with its rank.
void on_threads(int size, const WorldOptions& options, const Body& body);

/// The same with forked processes.
void in_processes(int size, const WorldOptions& options, const Body& body);

/// For bodies: throws with file and line unless `holds`.
void require(bool holds, const std::string& what, std::source_location where = std::source_location::current());
/// Throws unless `part` stands in `text`.
void require_part(const std::string& text, const std::string& part,
                  std::source_location where = std::source_location::current());

/// What a call that must throw Error{InvalidArgument} says; "no complaint" where it does not throw.
std::string complaint(const std::function<void()>& call);

}  // namespace sinew::test

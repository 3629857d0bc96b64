#pragma once

#include <cstdlib>
#include <string_view>

#include <sinew/core/error.hpp>
#include <sinew/topology/format/json/json.hpp>
#include <sinew/topology/format/text/text.hpp>

namespace sinew::test {

/// What must hold of a machine that a parser accepted: it can be written, read again to the same, and shown.
inline void check_accepted(const Machine& machine) {
  const std::string written = to_json(machine);
  if (to_json(machine_from_json(written)) != written) std::abort();
  constexpr std::size_t kShown = 64;  // the table of distances is square
  if (machine.gpus.size() + machine.nics.size() + machine.numa_nodes.size() < kShown) (void)to_text(machine);
}

/// And of an error: it is the file's, by name.
inline void check_refused(const Error& error) {
  if (error.code() != Code::InvalidArgument || !std::string_view(error.what()).starts_with("file:")) std::abort();
}

}  // namespace sinew::test

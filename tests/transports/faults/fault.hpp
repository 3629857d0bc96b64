#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/deadline.hpp>

namespace sinew::test {

/// One thing that goes wrong between two ranks.
struct Fault {
  enum class Kind : std::uint8_t {
    Drop,       ///< the message is lost; its sender hears that it was sent
    Delay,      ///< it leaves later, and with it all behind it: a slow link
    Duplicate,  ///< it arrives twice
    Truncate,   ///< only its first bytes leave
    Reorder,    ///< the next one to that peer overtakes it; if none comes within 50 ms it leaves all the same
    Stall,      ///< the transport of this rank does nothing more, as that of a process that is stopped
    Kill,       ///< this process ends, by SIGKILL
    Refuse,     ///< a connection cannot be made: Error{Unavailable}
  };

  Kind kind = Kind::Drop;
  /// Which, from 1: of this rank's sends; Stall and Kill: of all its operations; Refuse: of its connections.
  std::uint64_t at = 1;
  bool onwards = false;   ///< and all that follow
  Duration time{};        ///< Delay, Stall; Stall: 0 is for ever
  std::size_t bytes = 0;  ///< Truncate: that are left
  int rank = -1;          ///< whose; -1: every rank's

  bool hits(std::uint64_t number) const noexcept { return onwards ? number >= at : number == at; }
};

/// Rules with commas between them: "KIND@N", "KIND@N+" from the N-th on; then ":TIME" (delay, stall) or ":BYTES"
/// (truncate), and "/RANK". "drop@3", "delay@1+:20ms", "truncate@2:8", "stall@9:2s/1", "kill@40/2", "refuse@1".
/// Errors: Error{InvalidArgument} naming the rule and the forms.
std::vector<Fault> parse_faults(std::string_view text);

}  // namespace sinew::test

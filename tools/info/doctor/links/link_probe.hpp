#pragma once

#include <cstdint>
#include <string>

#include <sinew/core/base/wire.hpp>
#include <sinew/core/net/auth.hpp>
#include <sinew/core/transport.hpp>
#include <sinew/tools/info/doctor/interfaces/interfaces.hpp>

namespace sinew::doctor {

/// How far a probe came. A later value implies those before it.
enum class LinkState : std::uint8_t {
  Unreachable,  ///< no connection, or nobody of the job at its end
  SmallOnly,    ///< short messages arrive, full packets do not
  Carries,
};
/// "unreachable", "small_only", "carries".
std::string_view name_of(LinkState state) noexcept;

/// One direction of a link, as the side that connects found it.
struct LinkResult {
  int from_host = 0;
  int to_host = 0;
  Link link;
  LinkState state = LinkState::Unreachable;
  int error = 0;                    ///< errno that ended the connecting; 0: it was something else
  std::string why;                  ///< Unreachable: in words
  double round_trip_s = 0;          ///< the fastest of some, of all tries
  double bytes_per_s = 0;           ///< the most of all tries
  int tries = 1;                    ///< how often it was measured
  std::uint32_t passing_bytes = 0;  ///< SmallOnly: longest packets that have been seen to arrive; 0: none
};

/// Adds another try of the same link. The better result counts: a busy machine makes a link look slow, nothing makes it
/// look fast.
void add_try(LinkResult& result, const LinkResult& again);

void write(WireWriter& to, const LinkResult& result);
LinkResult read_link_result(WireReader& from);

/// The server to ask at link.to.
struct LinkTarget {
  std::uint16_t port = 0;
  AuthClaim claim;
  Bytes secret;
};
/// Connects from link.from to the LinkServer at link.to, authenticates, and sends short and long messages.
/// Cost: at most a quarter of a second where the link carries, seconds where it does not.
LinkResult probe_link(const Link& link, const LinkTarget& target);

}  // namespace sinew::doctor

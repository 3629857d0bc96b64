#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <sinew/core/error.hpp>

namespace sinew {

/// What ranks tell each other when something ends.
enum class NoticeKind : std::uint8_t {
  RankLost,           ///< its process ended without a word
  RankLeft,           ///< it has ended its World in order: no failure for calls that need nothing from it
  CommunicatorEnded,  ///< all its calls, on all its ranks, with the first reason
  WorldEnded,         ///< the generation
  Proposal,           ///< who goes on after a failure, and where they meet: see survivors.hpp
  Vote,               ///< how that went for this rank
  Suspicion,          ///< two ranks' records of a communicator differ: for the own rank only, which judges it
};

/// Plain data, as it lies in shared memory and travels between hosts.
struct Notice {
  NoticeKind kind = NoticeKind::RankLost;
  Code code = Code::Ok;
  std::uint8_t from_afar = 0;    ///< not 0: it came from another host and is not sent to other hosts again
  std::int32_t world_rank = -1;  ///< the rank that was lost, that left, or that ended the communicator
  std::int32_t blamed = -1;  ///< for Status::rank(): a rank of `communicator`, or a World rank if kind is WorldEnded
  std::uint64_t communicator = 0;  ///< Group::identity; of Proposal and Vote, the ballot's number
  std::uint32_t length = 0;
  std::array<char, 980> text{};

  static Notice of(NoticeKind kind, int world_rank, const Status& reason, std::uint64_t communicator = 0) noexcept {
    Notice n;
    n.kind = kind;
    n.code = reason.code();
    n.world_rank = world_rank;
    n.blamed = reason.rank();
    n.communicator = communicator;
    n.length = static_cast<std::uint32_t>(std::min(reason.message().size(), n.text.size()));
    std::copy_n(reason.message().begin(), n.length, n.text.begin());  // an empty message has no address
    return n;
  }
  std::string_view message() const noexcept { return {text.data(), std::min<std::size_t>(length, text.size())}; }
  Status status() const { return {code, std::string(message()), blamed}; }
};

}  // namespace sinew

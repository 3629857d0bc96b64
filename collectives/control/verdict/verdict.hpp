#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinew/collectives/control/verdict/report.hpp>
#include <sinew/collectives/messages/open_messages.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/call/group.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

/// Why a call that waits is not done.
enum class Finding : std::uint8_t {
  OnItsWay,    ///< all have entered it: data is under way
  Late,        ///< somebody has not come yet, or is stopped; never a reason to give it up
  Mismatched,  ///< somebody made another call, or closed the communicator without making this one
  Gone,        ///< somebody has left, or gave the communicator up as others were lost, and will never come
};

struct SINEW_API Verdict {
  Finding finding = Finding::OnItsWay;
  std::string text;
  int blamed = -1;  ///< rank in the communicator

  /// What the communicator ends with; Ok where nothing ends.
  Status status() const;
};

/// A call that waits, as its own rank sees it.
struct Waiting {
  CallReport call;
  std::int64_t waited_ms = 0;
  Group group{};        ///< the call's communicator
  OpenMessages open{};  ///< messages of the call that are not complete, if they are known
  Status world_end{};   ///< the loss of a rank of the World that this rank knows of; Ok if there is none
};

/// One's own call of that sequence on the same communicator, while it is remembered.
using OwnCall = std::function<std::optional<CallReport>(std::uint32_t sequence)>;

/// Judges a call from the records of the other ranks. reports[r] is the report of the communicator's rank r. It is
/// empty if that rank has not answered yet. This rank's own entry is ignored. Texts name ranks as Group::rank_text()
/// does.
/// Pure: equal reports give equal verdicts.
SINEW_API Verdict judge(const Waiting& waiting, std::span<const std::optional<RankReport>> reports, const OwnCall& own);

/// Describes a call: "all_reduce(f32, sum, count 4) at train.cpp:12", or that a rank destroyed its communicator.
/// on: the communicator of a message, so that the peer's number in it is shown, too. It may be null.
SINEW_API std::string describe_call(const CallReport& call, const Group* on = nullptr);

}  // namespace sinew

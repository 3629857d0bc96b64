#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/action.hpp>

namespace sinew::parallel {

/// What every text of an action may say between the numbers, for messages.
inline constexpr std::string_view kActionWords =
    "F, B, I, W, R, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE";

/// Stage, what, micro-batch: "2F0"; "2UNSHARD" where there is none.
/// Source: as PyTorch's torch.distributed.pipelining writes actions; R is ours.
SINEW_API std::string to_string(const Action& action);

/// The reverse; none: the text is no action. PyTorch's REDUCE_GRAD is REDUCE.
SINEW_API std::optional<Action> parse_action(std::string_view text) noexcept;

}  // namespace sinew::parallel

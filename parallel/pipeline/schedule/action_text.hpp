#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/pipeline/schedule/action.hpp>

namespace sinew::parallel {

/// The words for kinds of actions, as error messages list them.
inline constexpr std::string_view kActionWords =
    "F, B, I, W, R, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE";

/// The stage, the word of the kind, and the microbatch: "2F0". Without a microbatch: "2UNSHARD".
/// Source: the notation of PyTorch's torch.distributed.pipelining. Only the word R is sinew's own.
SINEW_API std::string to_string(const Action& action);

/// The action that a text stands for, or nothing if it is no action. PyTorch's REDUCE_GRAD is read as REDUCE.
SINEW_API std::optional<Action> parse_action(std::string_view text) noexcept;

}  // namespace sinew::parallel

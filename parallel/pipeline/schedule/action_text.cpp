#include <cstddef>

#include <fmt/format.h>

#include <sinew/core/base/names.hpp>
#include <sinew/core/base/parse_number.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>

namespace sinew::parallel {
namespace {

constexpr Spelling<ActionKind> kWords[] = {
    {"F", ActionKind::Forward},
    {"B", ActionKind::Backward},
    {"I", ActionKind::InputGradient},
    {"W", ActionKind::WeightGradient},
    {"R", ActionKind::Recompute},
    {"SEND_F", ActionKind::SendActivation},
    {"RECV_F", ActionKind::ReceiveActivation},
    {"SEND_B", ActionKind::SendGradient},
    {"RECV_B", ActionKind::ReceiveGradient},
    {"UNSHARD", ActionKind::Unshard},
    {"RESHARD", ActionKind::Reshard},
    {"REDUCE", ActionKind::Reduce},
    {"REDUCE_GRAD", ActionKind::Reduce},
};

constexpr std::string_view kDigits = "0123456789";

/// Digits and nothing else.
std::optional<std::int32_t> number_of(std::string_view digits) noexcept {
  return digits.starts_with('-') ? std::nullopt : parse_number<std::int32_t>(digits);
}

}  // namespace

std::string to_string(const Action& action) {
  const std::string_view word = find_name(kWords, action.kind);
  return has_micro_batch(action.kind) ? fmt::format("{}{}{}", action.stage, word, action.micro_batch)
                                      : fmt::format("{}{}", action.stage, word);
}

std::optional<Action> parse_action(std::string_view text) noexcept {
  const std::size_t word = text.find_first_not_of(kDigits);
  if (word == text.npos) return std::nullopt;
  const std::size_t after = text.find_last_not_of(kDigits) + 1;
  const auto stage = number_of(text.substr(0, word));
  const auto kind = find_value(kWords, text.substr(word, after - word));
  if (!stage || !kind) return std::nullopt;
  if (!has_micro_batch(*kind)) return after == text.size() ? std::optional(Action{*kind, *stage, -1}) : std::nullopt;
  const auto micro_batch = number_of(text.substr(after));
  return micro_batch ? std::optional(Action{*kind, *stage, *micro_batch}) : std::nullopt;
}

}  // namespace sinew::parallel

#include <algorithm>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/pipeline/passes/require_sound.hpp>
#include <sinew/parallel/pipeline/schedule/action_text.hpp>
#include <sinew/parallel/pipeline/schedule/stage_ends.hpp>
#include <sinew/parallel/pipeline/verify/prove.hpp>

namespace sinew::parallel {

void require_sound(const PipelineSchedule& schedule, std::string_view pass, std::initializer_list<ActionKind> added) {
  for (const std::vector<Action>& actions : schedule.actions) {
    for (const Action& a : actions) {
      if (std::ranges::find(added, a.kind) != added.end())
        throw Error(Code::InvalidArgument, fmt::format("{}: '{}' has {} already: expected a schedule without", pass,
                                                       schedule.name, to_string(a)));
    }
  }
  const PipelineVerdict verdict = prove(schedule, {.messages = has_messages(schedule)});
  if (!verdict)
    throw Error(Code::InvalidArgument, fmt::format("{}: '{}' cannot run: {}", pass, schedule.name, verdict.reason));
}

}  // namespace sinew::parallel

#include <sinew/collectives/verify.hpp>
#include <sinew/collectives/verify/checks.hpp>

namespace sinew {

ScheduleVerdict verify(const Schedule& schedule) {
  using namespace verifier;
  if (ScheduleVerdict v = check_shape(schedule); !v) return v;
  if (ScheduleVerdict v = check_sizes(schedule); !v) return v;
  Partners partners;
  if (ScheduleVerdict v = match_messages(schedule, partners); !v) return v;
  if (ScheduleVerdict v = check_races(schedule); !v) return v;
  Memory memory(schedule);
  if (ScheduleVerdict v = execute(schedule, partners, memory); !v) return v;
  return check_results(schedule, memory);
}

}  // namespace sinew

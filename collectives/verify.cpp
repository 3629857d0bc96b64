#include <sinew/collectives/verifier/checks.hpp>
#include <sinew/collectives/verify.hpp>

namespace sinew {

Verdict verify(const Schedule& schedule) {
  using namespace verifier;
  if (Verdict v = check_shape(schedule); !v) return v;
  Partners partners;
  if (Verdict v = match_messages(schedule, partners); !v) return v;
  if (Verdict v = check_races(schedule); !v) return v;
  Memory memory(schedule);
  if (Verdict v = execute(schedule, partners, memory); !v) return v;
  return check_results(schedule, memory);
}

}  // namespace sinew

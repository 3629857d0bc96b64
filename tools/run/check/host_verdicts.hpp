#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sinew::run {

/// The findings of `sinew-info doctor` about one host of a job.
struct HostVerdict {
  int first_rank = 0;                 ///< the lowest that runs there
  std::string name;                   ///< as the host calls itself
  std::vector<std::string> faults;    ///< why a job would fail: what was found, and the cure
  std::vector<std::string> warnings;  ///< names of the checks that warn
};

struct JobVerdict {
  std::vector<HostVerdict> hosts;   ///< none where the hosts differ too much to be asked
  std::vector<std::string> faults;  ///< of the job as a whole
};

/// Reads the report that `sinew-info doctor --json` prints.
/// Errors: Error{Mismatch} where it is none.
JobVerdict read_verdicts(std::string_view report);

}  // namespace sinew::run

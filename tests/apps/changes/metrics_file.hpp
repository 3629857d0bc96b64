#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace changes {

/// A step in the metrics of gpt. A step that was made again has several losses.
struct Step {
  double lowest_loss = 0, highest_loss = 0;
  double seconds = 0;  ///< of the last time
};

/// The steps by number. A line that is not whole yet is left out.
std::map<std::int64_t, Step> steps_in(const std::string& file);

/// The same of the last lines.
std::map<std::int64_t, Step> last_steps_in(const std::string& file);

/// The latest step in the file; -1: there is none.
std::int64_t last_step_in(const std::string& file);

}  // namespace changes

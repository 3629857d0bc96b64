#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace changes {

/// A step in the metrics of gpt.
struct Step {
  double loss = 0;
  double seconds = 0;
};

/// The steps by number. A line that is not whole yet is left out.
std::map<std::int64_t, Step> steps_in(const std::string& file);

/// The latest step in the file; -1: there is none. It reads the end of the file only.
std::int64_t last_step_in(const std::string& file);

}  // namespace changes

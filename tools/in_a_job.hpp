#pragma once

namespace sinew::tools {

/// A launcher has started this process as a rank: by the variables that it sets.
/// Errors: InvalidArgument where srun's contradict each other.
bool in_a_job();

}  // namespace sinew::tools

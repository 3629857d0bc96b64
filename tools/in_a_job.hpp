#pragma once

namespace sinew::tools {

/// A launcher has started this process as a rank: by the variables that it sets.
bool in_a_job() noexcept;

}  // namespace sinew::tools

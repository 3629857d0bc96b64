#pragma once

#include <set>

namespace sinew {

/// Messages of a call that have been posted and are not through, by ranks of its communicator.
struct OpenMessages {
  std::set<int> from;
  std::set<int> to;
};

}  // namespace sinew

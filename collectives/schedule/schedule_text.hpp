#pragma once

#include <string>

#include <sinew/collectives/schedule.hpp>
#include <sinew/core/base/export.hpp>

namespace sinew {

/// "recv out[2] = in[2] + message 0 from rank 1"
SINEW_API std::string to_text(const Step& step);

/// A program for people, one line per step:
///   rank 0 of 2, out of place: 4 steps; chunks: 2 in, 2 out, 0 scratch
///     0  send in[0] as message 0 to rank 1
///     1  recv out[1] = in[1] + message 0 from rank 1
///     2  send out[1] as message 1 to rank 1          after 1
///     3  recv out[0] = message 1 from rank 1
SINEW_API std::string to_text(const Program& program);

}  // namespace sinew

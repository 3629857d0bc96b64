#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/collectives/schedule.hpp>
#include <sinew/collectives/schedule/cells.hpp>
#include <sinew/collectives/verify.hpp>
#include <sinew/collectives/verify/expressions.hpp>

namespace sinew::verifier {

// The parts of verify(), in the order in which they run; each takes for granted what those before it have checked.

/// partners[rank][step]: for a Send or Recv the index of the other end's step on its peer.
using Partners = std::vector<std::vector<std::uint32_t>>;

/// What every chunk of every rank holds. At the start: its input, and in Out and Scratch nothing.
struct Memory {
  explicit Memory(const Schedule& schedule);
  Value& at(std::size_t rank, Space space, std::uint32_t chunk) { return held[rank][cells[rank].of(space, chunk)]; }

  Expressions expressions;
  std::vector<Cells> cells;
  std::vector<std::vector<Value>> inputs;  ///< by rank and In chunk
  std::vector<std::vector<Value>> held;    ///< by rank and cell
};

ScheduleVerdict check_shape(const Schedule& schedule);
ScheduleVerdict check_sizes(const Schedule& schedule);
ScheduleVerdict match_messages(const Schedule& schedule, Partners& partners);
ScheduleVerdict check_races(const Schedule& schedule);
ScheduleVerdict execute(const Schedule& schedule, const Partners& partners, Memory& memory);
ScheduleVerdict check_results(const Schedule& schedule, Memory& memory);

/// "rank 2, step 5 (send out[1] as message 0 to rank 3): " + what; step -1: "rank 2: " + what.
ScheduleVerdict reject(const Schedule& schedule, std::size_t rank, int step, const std::string& what);
/// "step 5 (send out[1] as message 0 to rank 3)"
std::string name_of(const Program& program, std::uint32_t step);
std::string chunk_name(Space space, std::uint32_t chunk);
/// The classes of all chunks of a space.
const std::vector<std::uint32_t>& classes_of(const Program& program, Space space) noexcept;

}  // namespace sinew::verifier

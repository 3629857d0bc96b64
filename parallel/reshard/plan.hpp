#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>

namespace sinew::parallel {

/// The parts that a rank holds and wants, and where the rank runs.
/// Shape: parts that one rank wants have no element in common. Parts that it holds may.
struct ReshardFacts {
  int host = 0;  ///< ranks with equal numbers share a host
  std::vector<PartDescription> held, wanted;
};

/// Elements [first, first + count) of an item, row by row, in a message.
struct ReshardSegment {
  std::uint32_t item = 0;      ///< index in ReshardPlan::items
  DType travels = DType::F32;  ///< the dtype of the elements in the message
  std::int64_t first = 0, count = 0;

  std::uint64_t bytes() const noexcept { return static_cast<std::uint64_t>(count) * size_of(travels); }
  friend bool operator==(const ReshardSegment&, const ReshardSegment&) = default;
};

/// A message of a plan: the segments one after the other.
struct ReshardMessage {
  int from = 0, to = 0;
  std::int32_t round = 0;
  bool across_hosts = false;
  bool passed_on = false;  ///< the sender got the elements in an earlier message; otherwise it holds them
  std::uint64_t bytes = 0;
  std::vector<ReshardSegment> segments;
};

/// The bytes that a rank sends and receives in a plan.
struct ReshardTraffic {
  std::uint64_t sent_across_hosts = 0, received_across_hosts = 0;
  std::uint64_t sent_within_host = 0, received_within_host = 0;
};

/// All messages that bring every wanted element from ranks that hold it to the ranks that want it.
struct ReshardPlan {
  std::vector<CheckpointItem> items;                ///< as they are held, by name
  std::vector<ReshardMessage> messages;             ///< by round. Messages of a pair of ranks are sent in this order
  std::vector<std::vector<ReshardSegment>> copies;  ///< by rank: elements that the rank both holds and wants
  std::int32_t rounds = 0;
  std::uint64_t most_in_flight = 0;  ///< bytes: the most that any rank has in flight

  /// By rank.
  SINEW_API std::vector<ReshardTraffic> traffic() const;
  /// The bytes that cross hosts and stay within them, the rounds, and what each rank sends and receives.
  SINEW_API std::string explain() const;
};

/// Plans how elements move from the ranks that hold them to the ranks that want them.
/// - An element that a rank holds itself is copied there.
/// - An element that a rank of the same host holds comes from that host.
/// - Any other element crosses to a host once for each dtype in which it travels, to one of the ranks that want it.
///   That rank passes it on within its host.
/// - Elements that several ranks hold are divided among these holders. No holder sends much more than others that could
///   send in its place. Elements are divided into ranges of 4 KiB or more.
/// - Elements travel in the held or the wanted dtype, whichever has fewer bytes. If both have equally many, they travel
///   in the wanted one.
/// - Between two rounds that follow each other lies at least one other round if a message passes on what the earlier
///   one brought. So a rank may have two rounds in flight.
/// `bytes_in_flight`: the most bytes of messages that a rank sends and receives in any two rounds that follow each
/// other.
/// The same facts give the same plan on all ranks.
/// Errors: InvalidArgument that names the item and the ranks. It is thrown for an item of two shapes, for an item that
///         is held in two dtypes, and for two dtypes that cannot be converted. It is thrown for elements that one rank
///         wants twice or that nobody holds. Also for fewer than 4,096 bytes in flight, and as require_valid().
SINEW_API ReshardPlan plan_reshard(const std::vector<ReshardFacts>& of_ranks, std::size_t bytes_in_flight);

/// Returns whether the ranks together hold all elements that any rank wants.
/// Errors: as plan_reshard(), except for elements that nobody holds or that a rank wants twice.
SINEW_API bool are_held(const std::vector<ReshardFacts>& of_ranks);

/// The dtype in which elements travel that are held in one dtype and wanted in another. Two dtypes of floating point
/// can be converted into each other, and each dtype into itself.
/// Errors: InvalidArgument for other dtypes.
SINEW_API DType travelling_dtype(DType held, DType wanted);

}  // namespace sinew::parallel

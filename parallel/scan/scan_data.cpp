#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/scan/scan_data.hpp>

namespace sinew::parallel {

ScanSizes checked_sizes(std::string_view what, const ScanSizes& sizes) {
  if (sizes.sequences < 1 || sizes.channels < 1 || sizes.states < 1)
    throw Error(Code::InvalidArgument,
                fmt::format("{}: {} sequences of {} channels with {} states, expected 1 or more of each", what,
                            sizes.sequences, sizes.channels, sizes.states));
  return sizes;
}

SequenceCut cut_of_group(std::string_view what, const Communicator& group, SequenceCut cut) {
  const int ranks = GroupPlace(group).ranks;
  if (cut.ranks() != ranks)
    throw Error(Code::InvalidArgument, fmt::format("{}: a sequence cut for {} ranks, expected {}, those of the group",
                                                   what, cut.ranks(), ranks));
  return cut;
}

std::vector<Rows> runs_of(const SequenceCut& cut, int rank) {
  std::vector<Rows> runs;
  std::int64_t at = 0;
  for (const Rows& piece : cut.pieces(rank)) {
    runs.push_back({at, at + piece.count()});
    at += piece.count();
  }
  return runs;
}

}  // namespace sinew::parallel

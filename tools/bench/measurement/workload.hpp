#pragma once

#include <cstddef>
#include <cstdint>

#include <sinew/tools/bench/buffers/buffer_ring.hpp>
#include <sinew/tools/check/exact_rows.hpp>

namespace sinew::tools {

/// What each rank does between batches, untimed: it writes all its inputs anew and reads all its outputs.
class Workload {
 public:
  Workload(RankData data, std::size_t element_bytes, const BufferRing& ring, check::ExactRows& rows, bool check);

  /// Writes the inputs of the first `slots` slots, with data that were not there before.
  void rewrite(std::size_t slots);
  /// Reads the outputs of the first `slots` slots. Counts the elements that are wrong, if outputs are checked.
  void read(std::size_t slots);
  std::uint64_t wrong() const noexcept { return wrong_; }

 private:
  /// The element of the rows with which the data of a slot begin in this round.
  std::uint64_t start_of(std::size_t slot) const noexcept;

  RankData data_;
  std::size_t element_bytes_;
  const BufferRing& ring_;
  check::ExactRows& rows_;
  bool check_;
  std::uint64_t round_ = 0;
  std::uint64_t wrong_ = 0;
  std::uint64_t read_sum_ = 0;  ///< keeps the reads that nobody needs
};

}  // namespace sinew::tools

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/placement/rows.hpp>

// Data that both forms of the selective scan use. T: float or double.
namespace sinew::parallel {

/// The sizes of a selective scan.
struct ScanSizes {
  std::int64_t sequences = 1, channels = 1, states = 1;

  /// Elements of the states of all sequences: [sequences, channels, states].
  std::int64_t state() const noexcept { return sequences * channels * states; }
  friend bool operator==(const ScanSizes&, const ScanSizes&) = default;
};

/// The inputs of a selective scan.
/// Shape: x, dt [sequences, tokens, channels]; b, c [sequences, tokens, states]; a [channels, states]; skip [channels].
template <class T>
struct ScanInputs {
  const T *x = nullptr, *dt = nullptr, *b = nullptr, *c = nullptr;
  const T *a = nullptr, *skip = nullptr;
};

/// The gradient of each input, shaped like it. Gradients of tokens are written. Gradients of the parameters a and skip
/// are added to.
template <class T>
struct ScanGradients {
  T *x = nullptr, *dt = nullptr, *b = nullptr, *c = nullptr;
  T *a = nullptr, *skip = nullptr;
};

/// Returns the sizes.
/// Errors: InvalidArgument that begins with `what`, for a size below 1.
ScanSizes checked_sizes(std::string_view what, const ScanSizes& sizes);
/// Returns the cut.
/// Errors: InvalidArgument that begins with `what`, for a cut of another number of ranks than the group has.
SequenceCut cut_of_group(std::string_view what, const Communicator& group, SequenceCut cut);
/// The pieces of a rank as they lie among its own tokens.
std::vector<Rows> runs_of(const SequenceCut& cut, int rank);

}  // namespace sinew::parallel

#pragma once

#include <cstdint>
#include <string>

#include <sinew/parallel/common/call_group.hpp>
#include <sinew/parallel/context/sequence_cut.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/scan/head_scan.hpp>
#include <sinew/parallel/tensor/head_cut.hpp>

namespace sinew::parallel {

/// The shape of a layer with a state space by heads (Mamba-2), and of the sequences of a pass. All counts are those of
/// the whole layer.
struct StateSpaceShape {
  std::string name{};
  std::int64_t width = 0;
  std::int64_t head_width = 64;
  std::int64_t heads = 0;     ///< 0: as many as have twice the width
  std::int64_t groups = 1;    ///< of heads that share b and c; heads are a multiple of it
  std::int64_t states = 128;  ///< of each element of a head
  std::int64_t taps = 4;      ///< tokens that the convolution looks at
  double epsilon = 1e-5;      ///< of the norm
  std::int64_t chunk = 64;    ///< tokens that are computed at once; results depend on it in their last digits only
  std::int64_t sequences = 1;
  SequenceCut positions;  ///< the cut of each sequence over the ranks of the context group

  std::int64_t inner() const noexcept { return heads * head_width; }
};

/// The shape with its defaults filled in. The checks have the same result on all ranks.
/// Errors: InvalidArgument as StateSpaceModule.
StateSpaceShape checked_state_space(StateSpaceShape shape, const LayerGroup& group, const CallGroup& context);

// The functions below take a shape that was checked.
HeadCut state_space_cut(const StateSpaceShape& shape, const LayerGroup& group);
HeadScanSizes state_space_sizes(const StateSpaceShape& shape, const HeadCut& cut);
/// Elements of a token that the convolution takes.
std::int64_t tapped_of(const HeadScanSizes& sizes);
/// The projection of the layer's input. Each rank has x, b, c, z and dt of its heads side by side.
LinearShape state_space_in(const StateSpaceShape& shape, const LayerGroup& group, std::int64_t rows);
LinearShape state_space_out(const StateSpaceShape& shape, const LayerGroup& group, std::int64_t rows);

}  // namespace sinew::parallel

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sinew/core/buffer.hpp>
#include <sinew/core/dtype.hpp>
#include <sinew/parallel/placement/box.hpp>

#include "parts.hpp"
#include "shape.hpp"

namespace gpt {

/// A parameter of the model. Row-major; of a linear layer [outputs, inputs].
struct ParameterInfo {
  enum class Start : std::uint8_t {
    Zeros,
    Ones,
    Normal,
    Rates,  ///< of a scan: log(1 + n) of state n, the last dimension
    Steps,  ///< of a scan: whose softplus is log-uniform from 0.001 to 0.1
  };

  std::string path;
  std::vector<std::int64_t> shape;  ///< of the whole; keys and values are a dimension of their own
  sinew::parallel::Box box;         ///< what this rank has of it
  std::string unit;                 ///< "root": what the first and the last layer share; "blocks.3"
  std::int32_t uses = 1;            ///< how often a backward pass reports its gradient
  Start start = Start::Zeros;
  double deviation = 0;     ///< of Start::Normal
  bool of_experts = false;  ///< ep spreads it, etp may cut it; the others are dense

  /// Of this rank.
  std::int64_t elements() const noexcept { return box.elements(); }
  bool is_cut() const noexcept;
  /// Has part of what it has of each expert.
  bool is_cut_in_experts() const noexcept;
  /// The number in the whole of element k of what this rank has.
  std::int64_t whole_number(std::int64_t k) const noexcept;
};

/// Where a parameter is in the list that parameters() gives.
enum RootParameter : std::int32_t { kTokens, kPositions, kFinalWeight, kFinalBias, kRootParameters };
/// Of what mixes positions, from BlockParameters::mixer on.
enum AttentionParameter : std::int32_t {
  kQueriesWeight,
  kQueriesBias,
  kKeysValuesWeight,
  kKeysValuesBias,
  kOutWeight,
  kOutBias,
  kAttentionParameters,
  kSinks = kAttentionParameters  ///< where the shape has them
};
/// Of a selective scan, in a mixer's place.
enum ScanParameter : std::int32_t {
  kScanInWeight,
  kScanTapsWeight,
  kScanTapsBias,
  kScanDynamicsWeight,
  kScanStepWeight,
  kScanStepBias,
  kScanRates,
  kScanSkip,
  kScanOutWeight,
  kScanParameters
};
/// Of experts, in an MLP's place; those of all experts are one parameter, experts its first dimension.
enum ExpertParameter : std::int32_t {
  kRouterWeight,  ///< dense
  kExpertUpWeight,
  kExpertUpBias,
  kExpertDownWeight,
  kExpertDownBias,
  kExpertParameters
};
/// Of a block: of pairs the first, which is the weight; the bias follows. With experts `up` is the first of theirs.
struct BlockParameters {
  std::int32_t norm1, mixer, norm2, up, down, end;
};
BlockParameters block_parameters(const Shape& shape, int block) noexcept;

/// Token embeddings (also the head), positions, final norm; then of each block a norm, what mixes positions, another
/// norm, and the MLP.
/// Source: Radford et al., Language models are unsupervised multitask learners (GPT-2), initial values as there.
std::vector<ParameterInfo> parameters(const Shape& shape, const Part& part = {});

/// Writes elements [first, last) of what this rank has of a parameter's initial values, of f32, f64 or bf16: computed
/// in f64 by seed, path and the element's number in the whole, rounded once.
void initialise(const ParameterInfo& info, std::uint64_t seed, std::int64_t first, std::int64_t last,
                sinew::DType dtype, sinew::Buffer into);

}  // namespace gpt

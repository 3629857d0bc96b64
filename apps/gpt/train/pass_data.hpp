#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <sinew/parallel/modules/layers/token_places.hpp>
#include <sinew/parallel/modules/pass.hpp>

#include "../shape.hpp"

namespace gpt {

/// The data of a pass: the bytes that this rank sees, those that it predicts, and where documents begin.
class PassData {
 public:
  /// sequences: of context + 1 bytes each. All but a sequence's first byte are predicted, and what begins a document.
  void read(const Shape& shape, const sp::TokenPlaces& places, std::span<const std::uint8_t> sequences,
            std::int64_t step, std::int64_t first_sample);
  sp::MicroBatch batch() const;

 private:
  std::vector<std::int64_t> seen_, targets_;
  std::vector<sp::AttentionMask> masks_;
  std::int64_t step_ = 0, first_sample_ = 0;
};

}  // namespace gpt

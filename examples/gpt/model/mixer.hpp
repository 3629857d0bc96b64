#pragma once

#include <cstddef>
#include <span>

#include "../layers/weights.hpp"
#include "block_shape.hpp"
#include "store.hpp"

namespace gpt {

/// The part of a block in which positions learn of each other.
template <class T>
class Mixer {
 public:
  virtual ~Mixer() = default;

  /// x, out: [own rows, width]. kept: what the backward pass needs, of kept_elements().
  virtual void forward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept, const BlockScratch<T>& scratch,
                       T* out) = 0;
  /// dx, which is scratch.rows, is written; gradients are added and reported.
  virtual void backward(Store& store, Weights<T>& weights, const T* x, std::span<T> kept, const T* d,
                        const BlockScratch<T>& scratch) = 0;
  virtual std::size_t kept_elements() const = 0;
};

}  // namespace gpt

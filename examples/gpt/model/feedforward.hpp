#pragma once

#include "../layers/weights.hpp"
#include "activations.hpp"
#include "block_shape.hpp"
#include "store.hpp"

namespace gpt {

template <class T>
struct BlockActivations;

/// The part of a block in which each position is computed for itself: of BlockActivations::normed2.
template <class T>
class Feedforward {
 public:
  virtual ~Feedforward() = default;

  /// out: [own rows, width].
  virtual void forward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                       T* out) = 0;
  /// What forward has made and the block does not keep.
  virtual void again(Store& store, Weights<T>& weights, const BlockActivations<T>& a,
                     const BlockScratch<T>& scratch) = 0;
  /// d: of out. dx, which is scratch.rows, is written; gradients are added and reported.
  virtual void backward(Store& store, Weights<T>& weights, const BlockActivations<T>& a, const BlockScratch<T>& scratch,
                        const T* d) = 0;
};

}  // namespace gpt

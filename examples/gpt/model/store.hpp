#pragma once

#include <sinew/core/buffer.hpp>

namespace gpt {

/// Where a model's parameters and gradients lie, and who is told what the model does: the calls of DataParallel. Units
/// are 0, the root, around all others in both passes, and 1 to `layers`, the blocks.
/// Lifetime: what parameter(p) gives is there between before_ and after_ of its unit.
class Store {
 public:
  virtual ~Store() = default;
  virtual void before_forward(int unit) = 0;
  virtual void after_forward(int unit) = 0;
  virtual void before_backward(int unit) = 0;
  virtual void after_backward(int unit) = 0;
  virtual sinew::Buffer parameter(int p) = 0;
  virtual sinew::Buffer gradient(int p) = 0;
  virtual void gradient_ready(int p) = 0;
};

}  // namespace gpt

#pragma once

// The update rules of optimizers: their options, the layout of their state and their kernels. The room also holds the
// options and the state of loss scaling. It includes nothing of `parallel`, so that predictions of memory and the index
// of checkpoints need no optimizer.

namespace sinew::parallel {

/// Options of SGD: value -= rate * velocity, or rate * (gradient + momentum * velocity) with Nesterov's momentum.
/// Source: as torch.optim.SGD: velocity = momentum * velocity + gradient; the first velocity is the first gradient.
struct SgdOptions {
  double rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;  ///< weight_decay * value is added to the gradient
  bool nesterov = false;
};

/// Source: Kingma and Ba, arXiv 1412.6980; decoupled weight decay: Loshchilov and Hutter, arXiv 1711.05101 (AdamW).
struct AdamOptions {
  double rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled = true;  ///< decay shrinks the value directly; otherwise it is added to the gradient
};

}  // namespace sinew::parallel

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/collectives/communicator.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/parallel/expert/balance_loss.hpp>
#include <sinew/parallel/expert/capacity.hpp>
#include <sinew/parallel/expert/dispatcher.hpp>
#include <sinew/parallel/expert/router.hpp>
#include <sinew/parallel/expert/router_states.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/modules/layers/token_places.hpp>

namespace sinew::parallel {

/// A mixture of experts: a router, and equal experts of two linear layers with gelu between them.
struct ExpertsShape {
  std::string name{};
  std::int64_t rows = 0;  ///< tokens of a pass, all ranks of the tensor-parallel group together
  std::int64_t width = 0;
  std::int64_t inner = 0;  ///< outputs of an expert's first layer
  std::int64_t experts = 1;
  std::int64_t top_k = 1;  ///< experts of each token
  RouterScore score = RouterScore::Softmax;
  DispatchKind dispatch = DispatchKind::AllToAll;
  std::int64_t chunks = 1;                      ///< with more, some tokens travel while others are computed
  double deviation = 0.02;                      ///< of the initial values of weights
  std::optional<double> last_deviation{};       ///< of the experts' second layer; {}: `deviation`
  std::int64_t groups = 1, chosen_groups = 1;   ///< RouterShape
  double z = 0;                                 ///< RouterShape
  double balance = 0;                           ///< the coefficient of the balance loss (BalanceLoss); 0: none
  CapacityShape capacity{};                     ///< of an expert for a sequence
  Determinism determinism = Determinism::Fast;  ///< of the sums of experts' outputs
};

/// The dispatcher and the limits of layers with experts. Layers of one shape can share them, because only one of them
/// computes at a time: then their memory is there once. They are made at their first use.
template <class T>
struct SharedExperts {
  std::unique_ptr<Dispatcher<T>> dispatcher{};
  std::optional<BalanceLoss<T>> balance{};
  std::optional<CapacityLimit<T>> capacity{};
  std::size_t planned_bytes = 0;  ///< what the dispatcher will hold, if tokens are spread evenly
};

/// The surroundings of a layer with experts.
template <class T>
struct ExpertsSurroundings {
  /// The places of tokens in their sequences. Needed for a balance loss and for a capacity.
  std::optional<TokenPlaces> places{};
  Communicator* sequences = nullptr;           ///< the ranks with tokens of the same sequences; null: this rank alone
  RouterStates* states = nullptr;              ///< counts loads and losses, and has biases; null: nothing is counted
  int layer = 0;                               ///< of `states`
  std::shared_ptr<SharedExperts<T>> shared{};  ///< null: the module has its own, which it makes at once
};

/// Each token goes to some of many experts, which are spread over the ranks of ExpertRanks::experts, and each of which
/// may be cut over those of ExpertRanks::tensor. The output of a token is the sum over its experts, each multiplied by
/// its gate.
/// The router's weight is dense. With top_k above 1 the gates of a token add up to 1. Experts' parameters are held by
/// data parallelism of their own (ModelOptions::expert_mesh), along axes "ep" and "etp" of that mesh.
/// Shape:  x, out [own rows, width].
/// Errors: as Router and make_dispatcher. InvalidArgument for several tensor-parallel ranks without sequence
///         parallelism: they would send the same tokens.
/// Cost:   as the Dispatcher, forward and backward. Memory for the rows that come to this rank's experts, which depends
///         on the router's choices.
/// Source: Shazeer et al., arXiv 1701.06538.
template <class T>
class SINEW_API ExpertsModule final : public Module<T> {
 public:
  /// ranks: null for `experts` means that this rank has all experts.
  /// Lifetime: the communicators of `ranks` outlive it.
  /// Errors: InvalidArgument for a balance loss or a capacity without places.
  ExpertsModule(const LayerGroup& group, const ExpertRanks& ranks, const ExpertsShape& shape,
                const ExpertsSurroundings<T>& surroundings = {});

  std::int64_t in_elements() const override { return own_rows_ * shape_.width; }
  std::int64_t out_elements() const override { return in_elements(); }
  ArrayCounts kept_arrays() const override;
  ArrayCounts deferred_arrays() const override;
  ArrayCounts forward_arrays(bool keeps) const override;
  ArrayCounts backward_arrays() const override;
  std::string_view name() const override { return shape_.name; }
  /// The outputs of gelu are made again. The rows stay: bringing them here again would be another exchange.
  void drop_cheap_arrays(bool drop) override { drops_ = drop; }
  void declare(ParameterList& list) override;
  void forward(Pass<T>& pass, const T* x, Kept<T>& kept, T* out) override;
  void input_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout, T* dx) override;
  void weight_gradient(Pass<T>& pass, const T* x, Kept<T>& kept, const T* dout) override;

 private:
  /// The router's decision, and the way of the tokens by it.
  struct Decision {
    Routed<T> routed;
    std::unique_ptr<Dispatch<T>> way;
    std::vector<double> pull;  // BalanceLoss::Result
  };
  SharedExperts<T>& shared();
  void route(Pass<T>& pass, const T* x, Decision& decision);

  /// The rows of this rank's experts, if tokens are spread evenly.
  std::int64_t even_rows() const noexcept;
  std::int64_t inner() const noexcept { return inner_.count(); }
  /// One of the ranks that share an expert adds the bias of its second layer.
  bool adds_bias() const noexcept { return inner_.first == 0; }
  template <class F>
  void for_each_expert(const Dispatch<T>& way, const Rows& experts, const F& f) const;
  /// The parameters of one of the experts' two layers.
  struct Layer {
    typename Pass<T>::Values weight, bias;
  };
  void first_layer(const Layer& of, const Dispatch<T>& way, const Rows& experts, const T* in, T* up) const;
  void bend(const Dispatch<T>& way, std::size_t chunk, const T* up, T* bent) const;
  const T* bent_again(Pass<T>& pass, Kept<T>& kept) const;
  void second_layer(const Layer& of, const Dispatch<T>& way, const Rows& experts, const T* bent, T* out) const;

  ExpertsShape shape_;
  LayerGroup group_;
  Rows experts_, inner_;  // of this rank
  int expert_ranks_, tensor_ranks_;
  std::int64_t own_rows_;
  std::unique_ptr<Communicator> alone_;  // in the place of groups that are null
  ExpertRanks ranks_;
  ExpertsSurroundings<T> surroundings_;
  TokenPositions where_;
  Router<T> router_;
  bool drops_ = false;  // the outputs of gelu
  std::int32_t router_weight_ = 0, up_ = 0, up_bias_ = 0, down_ = 0, down_bias_ = 0;
};

extern template class ExpertsModule<float>;
extern template class ExpertsModule<double>;

}  // namespace sinew::parallel

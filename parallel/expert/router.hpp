#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinew/core/base/export.hpp>
#include <sinew/parallel/expert/routing.hpp>

namespace sinew::parallel {

/// The functions that turn a logit into a score.
enum class RouterScore : std::uint8_t { Softmax, Sigmoid };

/// "softmax", "sigmoid".
SINEW_API std::string_view name_of(RouterScore score) noexcept;

/// The options of a router.
struct RouterShape {
  std::string name{};  ///< as errors show it: "blocks.3.router"
  std::int64_t experts = 1;
  std::int64_t top_k = 1;
  RouterScore score = RouterScore::Softmax;
  /// true: the gates of a token add up to `scale`. With top_k 1 each gate is then `scale`, and the router learns from
  /// balance losses only. false: a gate is its score times `scale`, as in Switch (Fedus et al., arXiv 2101.03961).
  bool normalised = true;
  double scale = 1;         ///< the factor of all gates
  std::int64_t groups = 1;  ///< the number of equal groups of experts; a token goes to some groups only
  /// To how many groups a token goes. They are the groups whose top_k / chosen_groups best experts have the largest sum
  /// of scores.
  std::int64_t chosen_groups = 1;
  double z = 0;  ///< the coefficient of log(sum(exp(logits)))^2, which is added to the loss of each token

  /// Errors: InvalidArgument naming everything that does not fit.
  SINEW_API void require() const;
};

/// The results of a router's forward pass that it keeps.
template <class T>
struct Routed {
  Routing<T> routing;
  std::vector<std::int32_t> chosen{};  ///< [tokens, top_k], before any assignment is dropped
  std::vector<T> logits{}, scores{};   ///< [tokens, experts]
  double z_loss = 0;                   ///< of all tokens, multiplied by its coefficient
};

/// Chooses the top_k experts of each token by their scores. If scores are equal, the lower number wins. A bias may be
/// added to the scores for the choice. The gates come from the scores without the bias.
/// Shape:  logits [tokens, experts]; bias [experts], or empty for none.
/// Thread: any. Nothing is communicated: the choice for a token depends on its own logits only.
/// Errors: logits that are not numbers throw no error here. Routing::fault names the first one, and a dispatcher tells
///         all ranks.
/// Source: Shazeer et al., arXiv 1701.06538; groups and bias: DeepSeek-V3, arXiv 2412.19437; z: Zoph et al., ST-MoE,
///         arXiv 2202.08906.
template <class T>
class SINEW_API Router {
 public:
  explicit Router(RouterShape shape);

  const RouterShape& shape() const noexcept { return shape_; }

  Routed<T> route(std::span<const T> logits, std::int64_t tokens, std::span<const double> bias = {}) const;

  /// Writes dlogits [tokens, experts]: `scale` times the gradient of the z loss, plus the gradient that comes from
  /// dgates [tokens, top_k]. pull [sequences, experts], or empty: the gradient of a balance loss with respect to the
  /// probabilities of each token of a sequence (BalanceLoss). sequence: the sequence of each token.
  void backward(const Routed<T>& routed, std::span<const T> dgates, double scale, std::span<const double> pull,
                std::span<const std::int32_t> sequence, std::span<T> dlogits) const;

 private:
  struct Choice;
  void choose(std::span<const double> scores, std::span<const double> bias, Choice& room, std::int32_t* to) const;

  RouterShape shape_;
};

extern template class Router<float>;
extern template class Router<double>;

}  // namespace sinew::parallel

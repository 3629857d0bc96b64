#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/at.hpp>
#include <sinew/parallel/expert/router.hpp>
#include <sinew/parallel/expert/score_shares.hpp>

namespace sinew::parallel {
std::string_view name_of(RouterScore score) noexcept {
  switch (score) {
    case RouterScore::Softmax: return "softmax";
    case RouterScore::Sigmoid: return "sigmoid";
  }
  return "";
}

void RouterShape::require() const {
  std::vector<std::string> wrong;
  if (experts < 1) wrong.push_back(fmt::format("{} experts, expected 1 or more", experts));
  if (groups < 1 || experts % std::max<std::int64_t>(groups, 1) != 0)
    wrong.push_back(fmt::format("{} groups, expected a divisor of its {} experts", groups, experts));
  if (chosen_groups < 1 || chosen_groups > groups)
    wrong.push_back(fmt::format("{} groups chosen, expected 1 to {}", chosen_groups, groups));
  if (wrong.empty() && (top_k < 1 || top_k > experts / groups * chosen_groups))
    wrong.push_back(fmt::format("top {} of the {} experts of {} group{}, expected 1 to {}", top_k,
                                experts / groups * chosen_groups, chosen_groups, chosen_groups == 1 ? "" : "s",
                                experts / groups * chosen_groups));
  if (!(scale > 0) || !std::isfinite(scale)) wrong.push_back(fmt::format("scale {}, expected above 0", scale));
  if (!(z >= 0) || !std::isfinite(z)) wrong.push_back(fmt::format("z {}, expected 0 or more", z));
  if (!wrong.empty()) throw Error(Code::InvalidArgument, fmt::format("router '{}': {}", name, fmt::join(wrong, "; ")));
}

/// Room that choosing needs, and the groups that it may choose from.
template <class T>
struct Router<T>::Choice {
  std::vector<double> by;
  std::vector<std::int32_t> order, groups;
  std::vector<double> of_groups;
};

template <class T>
Router<T>::Router(RouterShape shape) : shape_(std::move(shape)) {
  shape_.require();
}

template <class T>
void Router<T>::choose(std::span<const double> scores, std::span<const double> bias, Choice& room,
                       std::int32_t* to) const {
  const std::int64_t in_group = shape_.experts / shape_.groups;
  room.by.assign(scores.begin(), scores.end());
  for (std::size_t e = 0; e < bias.size(); ++e) room.by[e] += bias[e];
  const auto better_by = [](const std::vector<double>& values) {
    return [&values](std::int32_t a, std::int32_t b) {
      const double x = values[at(a)], y = values[at(b)];
      return x != y ? x > y : a < b;
    };
  };
  room.order.clear();
  if (shape_.chosen_groups < shape_.groups) {
    const std::int64_t counted = std::max<std::int64_t>(shape_.top_k / shape_.chosen_groups, 1);
    room.of_groups.assign(at(shape_.groups), 0);
    std::vector<double> members;
    for (std::int64_t g = 0; g < shape_.groups; ++g) {
      members.assign(room.by.begin() + g * in_group, room.by.begin() + (g + 1) * in_group);
      const auto end = members.begin() + std::min(counted, in_group);
      std::partial_sort(members.begin(), end, members.end(), std::greater{});
      room.of_groups[at(g)] = std::accumulate(members.begin(), end, 0.0);
    }
    room.groups.resize(at(shape_.groups));
    std::iota(room.groups.begin(), room.groups.end(), 0);
    std::ranges::sort(room.groups, better_by(room.of_groups));
    for (std::int64_t i = 0; i < shape_.chosen_groups; ++i) {
      for (std::int64_t e = 0; e < in_group; ++e)
        room.order.push_back(static_cast<std::int32_t>(room.groups[at(i)] * in_group + e));
    }
  } else {
    room.order.resize(at(shape_.experts));
    std::iota(room.order.begin(), room.order.end(), 0);
  }
  const auto chosen = room.order.begin() + shape_.top_k;
  std::partial_sort(room.order.begin(), chosen, room.order.end(), better_by(room.by));
  std::copy(room.order.begin(), chosen, to);
  std::sort(to, to + shape_.top_k);
}

template <class T>
Routed<T> Router<T>::route(std::span<const T> logits, std::int64_t tokens, std::span<const double> bias) const {
  const std::size_t experts = at(shape_.experts), k = at(shape_.top_k);
  if (logits.size() != at(tokens) * experts || (!bias.empty() && bias.size() != experts))
    throw Error(Code::InvalidArgument,
                fmt::format("router '{}': {} logits and a bias of {} for {} tokens, expected {} and 0 or {}",
                            shape_.name, logits.size(), bias.size(), tokens, at(tokens) * experts, experts));
  if (!std::ranges::all_of(bias, [](double b) { return std::isfinite(b); }))
    throw Error(Code::InvalidArgument,
                fmt::format("router '{}': a bias of {}, expected finite numbers", shape_.name, fmt::join(bias, ", ")));
  Routed<T> r;
  r.routing.router = shape_.name;
  r.routing.tokens = tokens;
  r.routing.top_k = shape_.top_k;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isfinite(logits[i])) continue;
    r.routing.fault = RouterFault{static_cast<std::int64_t>(i / experts), static_cast<std::int64_t>(i % experts)};
    break;
  }
  r.routing.experts.assign(at(tokens) * k, kNoExpert);
  r.routing.gates.assign(at(tokens) * k, T{0});
  r.chosen = r.routing.experts;
  r.logits.assign(logits.begin(), logits.end());
  r.scores.assign(logits.size(), T{0});
  if (r.routing.fault) return r;

  std::vector<double> scores(experts), shares(k);
  std::vector<T> of_chosen(k);
  Choice room;
  for (std::size_t t = 0; t < at(tokens); ++t) {
    const std::span<const T> row = logits.subspan(t * experts, experts);
    const double all = log_sum_of(row);
    r.z_loss += shape_.z * all * all;
    for (std::size_t e = 0; e < experts; ++e) {
      const auto logit = static_cast<double>(row[e]);
      scores[e] = shape_.score == RouterScore::Softmax ? std::exp(logit - all) : sigmoid(logit);
      r.scores[t * experts + e] = static_cast<T>(scores[e]);
    }
    std::int32_t* chosen = r.chosen.data() + t * k;
    choose(scores, bias, room, chosen);
    for (std::size_t i = 0; i < k; ++i) of_chosen[i] = row[at(chosen[i])];
    shares_of(std::span<const T>(of_chosen), shape_.score, shares);
    for (std::size_t i = 0; i < k; ++i)
      r.routing.gates[t * k + i] =
          static_cast<T>(shape_.scale * (shape_.normalised ? shares[i] : scores[at(chosen[i])]));
  }
  r.routing.experts = r.chosen;
  return r;
}

template <class T>
void Router<T>::backward(const Routed<T>& r, std::span<const T> dgates, double scale, std::span<const double> pull,
                         std::span<const std::int32_t> sequence, std::span<T> dlogits) const {
  const std::size_t experts = at(shape_.experts), k = at(shape_.top_k);
  std::vector<double> of_score(experts), of_log(experts), shares(experts);
  std::vector<T> of_chosen(k);
  for (std::size_t t = 0; t < at(r.routing.tokens); ++t) {
    const std::span<const T> logits(r.logits.data() + t * experts, experts);
    const std::int32_t* chosen = r.chosen.data() + t * k;
    const T* dgate = dgates.data() + t * k;
    std::ranges::fill(of_score, 0);
    std::ranges::fill(of_log, 0);  // of a score's logarithm: where scores add up to something else than 1
    if (shape_.normalised) {
      for (std::size_t i = 0; i < k; ++i) of_chosen[i] = logits[at(chosen[i])];
      shares_of(std::span<const T>(of_chosen), shape_.score, std::span(shares).first(k));
      double through = 0;
      for (std::size_t i = 0; i < k; ++i) through += shares[i] * static_cast<double>(dgate[i]);
      for (std::size_t i = 0; i < k; ++i)
        of_log[at(chosen[i])] = shape_.scale * shares[i] * (static_cast<double>(dgate[i]) - through);
    } else {
      for (std::size_t i = 0; i < k; ++i) of_score[at(chosen[i])] = shape_.scale * static_cast<double>(dgate[i]);
    }
    if (!pull.empty()) {
      const double* pulled = pull.data() + at(sequence[t]) * experts;
      shares_of(logits, shape_.score, shares);
      double through = 0;
      for (std::size_t e = 0; e < experts; ++e) through += shares[e] * pulled[e];
      for (std::size_t e = 0; e < experts; ++e) of_log[e] += scale * shares[e] * (pulled[e] - through);
    }
    const T* scores = r.scores.data() + t * experts;
    const double log_sum = shape_.z > 0 ? log_sum_of(logits) : 0;
    double through = 0;  // softmax: what all scores have in common; of_log adds up to 0
    if (shape_.score == RouterScore::Softmax)
      for (std::size_t e = 0; e < experts; ++e) through += of_score[e] * static_cast<double>(scores[e]);
    for (std::size_t e = 0; e < experts; ++e) {
      const auto p = static_cast<double>(scores[e]);
      double of_logit = shape_.score == RouterScore::Softmax ? of_log[e] + p * (of_score[e] - through)
                                                             : (of_log[e] + of_score[e] * p) * (1 - p);
      if (shape_.z > 0) of_logit += scale * 2 * shape_.z * log_sum * std::exp(static_cast<double>(logits[e]) - log_sum);
      dlogits[t * experts + e] = static_cast<T>(of_logit);
    }
  }
}

template class Router<float>;
template class Router<double>;

}  // namespace sinew::parallel

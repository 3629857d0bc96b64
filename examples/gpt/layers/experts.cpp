#include "experts.hpp"

#include <algorithm>
#include <utility>

#include "../math/vector_math.hpp"
#include "../parameters.hpp"

namespace gpt {

using sinew::parallel::Dispatch;
using sinew::parallel::Recompute;
using sinew::parallel::Rows;

namespace {

std::size_t at(std::int64_t i) noexcept { return static_cast<std::size_t>(i); }
int as_int(std::int64_t i) noexcept { return static_cast<int>(i); }

}  // namespace

template <class T>
struct Experts<T>::Gradients {
  std::shared_ptr<ExpertsRows<T>> rows;  // what went into both layers
  std::vector<std::int64_t> offsets;     // of rows by expert
  std::vector<T> d, dup;                 // [rows, ..]: gradients of what came out of them
};

template <class T>
Experts<T>::Experts(const BlockShape& shape, int number, Recompute recompute, Blas& blas, ExpertsParts<T>& parts,
                    Replicated<T> replicated)
    : shape_(shape),
      number_(number),
      first_(block_parameters(shape.whole, number).up),
      recompute_(recompute),
      blas_(&blas),
      parts_(&parts),
      replicated_(replicated),
      router_(ExpertsParts<T>::router_shape(shape.whole, number)) {}

template <class T>
std::size_t Experts<T>::rows_for(const BlockShape& shape) {
  const std::int64_t rows = shape.own_rows() * shape.whole.experts.top_k * shape.part.expert_tensor_ranks;
  return at(rows * (shape.whole.width + 2 * shape.part.of_expert(shape.whole).count()));
}

template <class T>
std::size_t Experts<T>::scratch_for(const BlockShape& shape) {
  const std::int64_t rows = shape.own_rows() * shape.whole.experts.top_k, width = shape.whole.width;
  const std::int64_t inner = shape.part.of_expert(shape.whole).count();
  return at(rows * (2 * width + shape.part.expert_tensor_ranks * (2 * width + inner)));
}

template <class T>
template <class F>
void Experts<T>::for_each_expert(const Dispatch<T>& way, const Rows& experts, const F& f) {
  for (std::int64_t e = experts.first; e < experts.last; ++e)
    f(e, Rows{way.offsets()[at(e)], way.offsets()[at(e) + 1]});
}

template <class T>
void Experts<T>::route(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept) {
  const std::int64_t rows = shape_.own_rows(), width = shape_.whole.width, experts = shape_.whole.experts.count;
  std::vector<T> logits(at(rows * experts));
  blas_->multiply({.b_transposed = true,
                   .m = as_int(rows),
                   .n = as_int(experts),
                   .k = as_int(width),
                   .la = as_int(width),
                   .lb = as_int(width),
                   .lc = as_int(experts)},
                  T{1}, x, weights.matrix(store, first_ + kRouterWeight), T{0}, logits.data());
  kept.routed = router_.route(logits, rows, parts_->routers->bias(number_));
  Routers::Pass pass{.z = kept.routed.z_loss, .tokens = rows};
  if (shape_.whole.experts.auxiliary > 0) {
    auto balance = parts_->balance.of(kept.routed, parts_->where);
    kept.pull = std::move(balance.pull);
    if (parts_->counts_sequences) pass.auxiliary = balance.loss;
  }
  parts_->routers->load(number_).add(kept.routed);
  pass.dropped = parts_->capacity.apply(kept.routed.routing, parts_->where);
  parts_->routers->add(pass);
  kept.way = parts_->dispatcher->plan(kept.routed.routing);
}

template <class T>
void Experts<T>::receive(Store& store, Weights<T>& weights, ExpertsKept<T>& kept, std::size_t chunk) {
  const std::int64_t width = shape_.whole.width, f = inner();
  ExpertsRows<T>& r = *kept.rows;
  kept.way->receive(chunk, r.in.data());
  const T* up = weights.matrix(store, first_ + kExpertUpWeight);
  std::vector<T> room(at(parts_->dispatcher->experts().count() * f));
  const T* bias = weights.vector(store, first_ + kExpertUpBias, room);
  for_each_expert(*kept.way, kept.way->chunks()[chunk], [&](std::int64_t e, const Rows& rows) {
    for (std::int64_t i = rows.first; i < rows.last; ++i) std::copy_n(bias + e * f, f, r.up.data() + i * f);
    blas_->multiply({.b_transposed = true,
                     .m = as_int(rows.count()),
                     .n = as_int(f),
                     .k = as_int(width),
                     .la = as_int(width),
                     .lb = as_int(width),
                     .lc = as_int(f)},
                    T{1}, r.in.data() + rows.first * width, up + e * f * width, T{1}, r.up.data() + rows.first * f);
  });
  bend(kept, kept.way->rows_of_chunk(chunk));
}

template <class T>
void Experts<T>::bend(ExpertsKept<T>& kept, const Rows& rows) const {
  gelu(kept.rows->up.data() + rows.first * inner(), kept.rows->bent.data() + rows.first * inner(),
       at(rows.count() * inner()));
}

template <class T>
void Experts<T>::finish(Store& store, Weights<T>& weights, const ExpertsKept<T>& kept, std::size_t chunk) {
  const std::int64_t width = shape_.whole.width, f = inner();
  const T* down = weights.matrix(store, first_ + kExpertDownWeight);
  std::vector<T> room(at(parts_->dispatcher->experts().count() * width));
  const T* bias = weights.vector(store, first_ + kExpertDownBias, room);
  T* out = parts_->scratch.data();
  for_each_expert(*kept.way, kept.way->chunks()[chunk], [&](std::int64_t e, const Rows& rows) {
    for (std::int64_t i = rows.first; i < rows.last; ++i) {
      T* to = out + i * width;
      if (adds_bias()) {
        std::copy_n(bias + e * width, width, to);
      } else {
        std::fill_n(to, width, T{0});
      }
    }
    blas_->multiply({.b_transposed = true,
                     .m = as_int(rows.count()),
                     .n = as_int(width),
                     .k = as_int(f),
                     .la = as_int(f),
                     .lb = as_int(f),
                     .lc = as_int(width)},
                    T{1}, kept.rows->bent.data() + rows.first * f, down + e * width * f, T{1},
                    out + rows.first * width);
    for (std::int64_t i = rows.first; i < rows.last; ++i) scale(out + i * width, kept.way->gates()[at(i)], at(width));
  });
}

template <class T>
void Experts<T>::forward(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept, T* out) {
  route(store, weights, x, kept);
  kept.rows->resize(kept.way->rows(), shape_.whole.width, inner());
  parts_->scratch.resize(at(kept.way->rows() * shape_.whole.width));
  kept.way->start(x);
  for (std::size_t c = 0; c < kept.way->chunks().size(); ++c) {
    receive(store, weights, kept, c);
    finish(store, weights, kept, c);
    kept.way->give_back(c, parts_->scratch.data());
  }
  kept.way->collect(out);
}

template <class T>
void Experts<T>::again(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept) {
  if (recompute_ != Recompute::Full) return;
  kept.rows->resize(kept.way->rows(), shape_.whole.width, inner());
  kept.way->start(x);
  for (std::size_t c = 0; c < kept.way->chunks().size(); ++c) receive(store, weights, kept, c);
}

template <class T>
void Experts<T>::report(Store& store, Weights<T>& weights, const Gradients& of) {
  const std::int64_t width = shape_.whole.width, f = inner(), experts = parts_->dispatcher->experts().count();
  const auto add = [&](int p, std::int64_t elements, const auto& gradient) {
    weights.add_gradient(store, first_ + p, at(experts * elements), [&](T* to, T beta) {
      for (std::int64_t e = 0; e < experts; ++e)
        gradient(Rows{of.offsets[at(e)], of.offsets[at(e) + 1]}, beta, to + e * elements);
    });
    store.gradient_ready(first_ + p);
  };
  // d [rows, a] and x [rows, b]: to [a, b] = d^T * x.
  const auto weight = [&](const std::vector<T>& d, std::int64_t a, const std::vector<T>& x, std::int64_t b) {
    return [&, a, b](const Rows& rows, T beta, T* to) {
      blas_->multiply({.a_transposed = true,
                       .m = as_int(a),
                       .n = as_int(b),
                       .k = as_int(rows.count()),
                       .la = as_int(a),
                       .lb = as_int(b),
                       .lc = as_int(b)},
                      T{1}, d.data() + rows.first * a, x.data() + rows.first * b, beta, to);
    };
  };
  const auto bias = [&](const std::vector<T>& d, std::int64_t a) {
    return [&, a](const Rows& rows, T beta, T* to) {
      if (beta == T{0}) std::fill_n(to, a, T{0});
      for (std::int64_t i = rows.first; i < rows.last; ++i) gpt::add(to, d.data() + i * a, at(a));
    };
  };
  add(kExpertDownBias, width, bias(of.d, width));
  add(kExpertDownWeight, width * f, weight(of.d, width, of.rows->bent, f));
  add(kExpertUpBias, f, bias(of.dup, f));
  add(kExpertUpWeight, f * width, weight(of.dup, f, of.rows->in, width));
}

template <class T>
void Experts<T>::router_backward(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept,
                                 const std::vector<T>& dgates, double scale, T* dx) {
  const std::int64_t rows = shape_.own_rows(), width = shape_.whole.width, experts = shape_.whole.experts.count;
  std::vector<T> dlogits(at(rows * experts)), of_weight(at(experts * width));
  router_.backward(kept.routed, dgates, scale, kept.pull, parts_->where.sequence, dlogits);
  blas_->multiply({.m = as_int(rows),
                   .n = as_int(width),
                   .k = as_int(experts),
                   .la = as_int(experts),
                   .lb = as_int(width),
                   .lc = as_int(width)},
                  T{1}, dlogits.data(), weights.matrix(store, first_ + kRouterWeight), T{1}, dx);
  blas_->multiply({.a_transposed = true,
                   .m = as_int(experts),
                   .n = as_int(width),
                   .k = as_int(rows),
                   .la = as_int(experts),
                   .lb = as_int(width),
                   .lc = as_int(width)},
                  T{1}, dlogits.data(), x, T{0}, of_weight.data());
  replicated_.sum(of_weight);
  replicated_.report(store, weights, first_ + kRouterWeight, of_weight);
}

template <class T>
void Experts<T>::backward(Store& store, Weights<T>& weights, const T* x, ExpertsKept<T>& kept, const T* d,
                          double loss_scale, T* dx) {
  const std::int64_t width = shape_.whole.width, f = inner(), rows = kept.way->rows();
  ExpertsRows<T>& r = *kept.rows;
  Gradients g{kept.rows, kept.way->offsets(), std::move(parts_->d), std::move(parts_->dup)};
  g.d.resize(at(rows * width));
  g.dup.resize(at(rows * f));
  std::vector<T> of_gates(at(rows)), dgates(kept.routed.chosen.size()), room(at(g.offsets.size()) * at(width));
  parts_->scratch.resize(at(rows * width));
  kept.way->start(d);
  for (std::size_t c = 0; c < kept.way->chunks().size(); ++c) {
    kept.way->receive(c, g.d.data());
    const Rows& experts = kept.way->chunks()[c];
    const T* down = weights.matrix(store, first_ + kExpertDownWeight);
    const T* bias = weights.vector(store, first_ + kExpertDownBias, room);
    for_each_expert(*kept.way, experts, [&](std::int64_t e, const Rows& of) {
      blas_->multiply({.m = as_int(of.count()),
                       .n = as_int(f),
                       .k = as_int(width),
                       .la = as_int(width),
                       .lb = as_int(f),
                       .lc = as_int(f)},
                      T{1}, g.d.data() + of.first * width, down + e * width * f, T{0}, g.dup.data() + of.first * f);
      for (std::int64_t i = of.first; i < of.last; ++i) {
        T* dup = g.dup.data() + i * f;
        T& gate = of_gates[at(i)];
        gate = dot(dup, r.bent.data() + i * f, at(f));
        if (adds_bias()) gate += dot(g.d.data() + i * width, bias + e * width, at(width));
        scale(dup, kept.way->gates()[at(i)], at(f));
        scale(g.d.data() + i * width, kept.way->gates()[at(i)], at(width));
      }
    });
    const Rows of_chunk = kept.way->rows_of_chunk(c);
    gelu_backward(r.up.data() + of_chunk.first * f, g.dup.data() + of_chunk.first * f, at(of_chunk.count() * f));
    const T* up = weights.matrix(store, first_ + kExpertUpWeight);
    for_each_expert(*kept.way, experts, [&](std::int64_t e, const Rows& of) {
      blas_->multiply({.m = as_int(of.count()),
                       .n = as_int(width),
                       .k = as_int(f),
                       .la = as_int(f),
                       .lb = as_int(width),
                       .lc = as_int(width)},
                      T{1}, g.dup.data() + of.first * f, up + e * f * width, T{0},
                      parts_->scratch.data() + of.first * width);
    });
    kept.way->give_back(c, parts_->scratch.data());
  }
  kept.way->collect(dx);
  kept.way->return_gates(of_gates.data(), dgates.data());
  router_backward(store, weights, x, kept, dgates, loss_scale, dx);
  if (weights.later == nullptr) {
    report(store, weights, g);
    parts_->d = std::move(g.d);
    parts_->dup = std::move(g.dup);
    return;
  }
  weights.later->add([this, &store, &weights, g = std::move(g)] { report(store, weights, g); });
}

template class Experts<float>;
template class Experts<double>;

}  // namespace gpt

#include "random_graphs.hpp"

#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/tensor/gradient_graph.hpp>
#include <sinew/parallel/tensor/layer_graph.hpp>

namespace sinew::parallel::test {
namespace {

class Writer {
 public:
  Writer(unsigned seed, const Factorisation& mesh) : random_(seed), graph_(mesh, {.dtype = DType::F64}) {
    for (int i = 0; i < 3; ++i) add_input({extent(), extent()});
  }

  StepGraph run() && {
    for (int i = 0; i < 12; ++i) add_any();
    for (int i = 0; i < 3; ++i) {
      const TensorId t = i == 0 ? all_.back() : any();
      graph_.output(fmt::format("out {}", i), graph_.moved(t, placement(t)));
    }
    return graph_.graph();
  }

 private:
  int draw(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  std::int64_t extent() { return std::vector<std::int64_t>{5, 6, 8}[static_cast<std::size_t>(draw(3))]; }
  std::string name(const char* of) { return fmt::format("{} {}", of, all_.size()); }
  const std::vector<std::int64_t>& shape(TensorId t) const {
    return graph_.graph().tensors[static_cast<std::size_t>(t)].shape;
  }
  TensorId any() { return all_[static_cast<std::size_t>(draw(static_cast<int>(all_.size())))]; }
  TensorId add(TensorId t) {
    all_.push_back(t);
    return t;
  }

  /// Whole, or cut somewhere.
  Placement placement(TensorId t) {
    const int dim = draw(static_cast<int>(shape(t).size()) + 1);
    return dim == 0 ? Placement(Replicate{}) : Shard{dim - 1, {}};
  }
  TensorId add_input(const std::vector<std::int64_t>& extents) {
    const int kind = draw(4);
    const Placement placement = kind == 0   ? Placement(Partial{})
                                : kind == 1 ? Placement(Replicate{})
                                            : Shard{draw(static_cast<int>(extents.size())), {}};
    return add(graph_.input(name("input"), extents, placement));
  }
  TensorId of_shape(const std::vector<std::int64_t>& extents) {
    for (int i = 0; i < 4; ++i) {
      const TensorId t = any();
      if (shape(t) == extents) return t;
    }
    return add_input(extents);
  }
  TensorId matrix() {
    for (;;) {
      const TensorId t = any();
      if (shape(t).size() == 2) return t;
    }
  }

  /// Of operands as they are, or moved somewhere; whole where that cannot be.
  void compute(const ComputeRule& rule, std::vector<TensorId> operands, const std::vector<std::int64_t>& extents) {
    for (TensorId& t : operands) {
      if (draw(2) == 0) t = graph_.moved(t, placement(t));
    }
    try {
      add(graph_.compute(name("compute"), rule, operands, extents));
    } catch (const Error&) {
      for (TensorId& t : operands) t = graph_.moved(t, Replicate{});
      add(graph_.compute(name("compute"), rule, operands, extents));
    }
  }

  void add_any() {
    const TensorId x = matrix();
    const std::int64_t r = shape(x)[0], c = shape(x)[1], o = extent();
    switch (draw(11)) {
      case 0: add(graph_.moved(x, placement(x))); break;
      case 1: compute({.labels = "rc->rc", .function = "tanh"}, {x}, {r, c}); break;
      case 2:
        compute({.labels = "ro,o->ro", .function = "norm", .whole = "o", .linear = {1}}, {x, of_shape({c})}, {r, c});
        break;
      case 3: compute({.labels = "ri,oi->ro", .linear = {0, 1}}, {x, of_shape({o, c})}, {r, o}); break;
      case 4: compute({.labels = "rc+rc->rc"}, {x, of_shape({r, c})}, {r, c}); break;
      case 5: compute({.labels = "rc,rc->rc", .linear = {0, 1}}, {x, of_shape({r, c})}, {r, c}); break;
      case 6: compute({.labels = "rc->r", .linear = {0}}, {x}, {r}); break;
      case 7: compute({.labels = "rc->cr", .linear = {0}}, {x}, {c, r}); break;
      case 8: compute({.labels = "ro->ro", .function = "softmax", .whole = "o"}, {x}, {r, c}); break;
      case 9: compute({.labels = "rc+c->rc"}, {x, of_shape({c})}, {r, c}); break;
      default: compute({.labels = "r,c->rc", .linear = {0, 1}}, {of_shape({r}), of_shape({c})}, {r, c});
    }
  }

  std::mt19937 random_;
  LayerGraph graph_;
  std::vector<TensorId> all_;
};

}  // namespace

StepGraph random_graph(unsigned seed, const Factorisation& mesh) {
  StepGraph graph = Writer(seed, mesh).run();
  return seed % 2 == 0 ? graph : with_backward(std::move(graph), mesh);
}

}  // namespace sinew::parallel::test

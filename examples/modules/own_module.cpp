// A layer of one's own: a convolution over time whose channels are cut over all ranks, as one module of a model.
// Try: sinew-run -n 4 build/release/bin/modules_own_module      1 to 8 ranks print the same losses
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/linear_module.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/placement/rows.hpp>

namespace sp = sinew::parallel;

constexpr std::int64_t kLength = 40, kIn = 3, kChannels = 8, kTaps = 3;

// out[t, c] = the sum over taps and inputs of weight[c, tap, input] * x[t + tap - 1, input].
// x [length, in], out [length, channels of this rank].
class Convolution final : public sp::Module<double> {
 public:
  explicit Convolution(sp::CallGroup tensor)
      : tensor_(tensor), place_(*tensor), mine_(sp::rows_of({}, place_.rank, place_.ranks, kChannels)) {}

  std::int64_t in_elements() const override { return kLength * kIn; }
  std::int64_t out_elements() const override { return kLength * mine_.count(); }
  void declare(sp::ParameterList& list) override {
    // The other ranks along "tp" have the other channels.
    const auto whole = sp::whole_parameter(list.like(), "convolution.weight", {kChannels, kTaps, kIn});
    const auto weight = sp::cut_along(whole, 0, mine_, "tp", place_.ranks);
    weight_ = list.add(weight, sp::normally_distributed(0.3));
  }
  void forward(sp::Pass<double>& pass, const double* x, sp::Kept<double>&, double* out) override {
    const auto weight = pass.values(weight_);
    std::fill_n(out, out_elements(), 0.0);
    for_each_product([&](auto o, auto i, auto w) { out[o] += weight.data()[w] * x[i]; });
  }
  void input_gradient(sp::Pass<double>& pass, const double*, sp::Kept<double>&, const double* dout,
                      double* dx) override {
    if (dx == nullptr) return;  // the first module of a model
    const auto weight = pass.values(weight_);
    std::fill_n(dx, in_elements(), 0.0);
    for_each_product([&](auto o, auto i, auto w) { dx[i] += weight.data()[w] * dout[o]; });
    if (place_.ranks > 1)  // each rank has the part that its channels add
      tensor_->all_reduce(std::span<double>(dx, kLength * kIn), sinew::ReduceOp::Sum, tensor_.options("dx")).get();
  }
  void weight_gradient(sp::Pass<double>& pass, const double* x, sp::Kept<double>&, const double* dout) override {
    pass.add_gradient(weight_, [&](double* to, double beta) {
      if (beta == 0) std::fill_n(to, mine_.count() * kTaps * kIn, 0.0);  // else `to` has what other passes added
      for_each_product([&](auto o, auto i, auto w) { to[w] += x[i] * dout[o]; });
    });
    pass.ready(weight_);
  }

 private:
  // Calls f with the numbers of an output, an input and a weight.
  template <class F>
  void for_each_product(const F& f) const {
    for (std::int64_t t = 0; t < kLength; ++t) {
      for (std::int64_t tap = 0; tap < kTaps; ++tap) {
        const std::int64_t from = t + tap - kTaps / 2;
        if (from < 0 || from >= kLength) continue;
        for (std::int64_t c = 0; c < mine_.count(); ++c) {
          for (std::int64_t i = 0; i < kIn; ++i) f(t * mine_.count() + c, from * kIn + i, (c * kTaps + tap) * kIn + i);
        }
      }
    }
  }

  sp::CallGroup tensor_;
  sp::GroupPlace place_;
  sp::Rows mine_;
  std::int32_t weight_ = -1;
};

int main() try {
  auto world = sinew::World::from_environment();
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"tp", world.size()}, {"dp", 1}}));
  sp::HostBlas blas;
  auto convolution = std::make_unique<Convolution>(mesh.along("tp"));
  auto bend = std::make_unique<sp::Pointwise<double>>(convolution->out_elements(), sp::gelu<double>());
  auto sum = std::make_unique<sp::RowModule<double>>(
      sp::LayerGroup{mesh.along("tp"), &blas},
      sp::LinearShape{.name = "sum", .rows = kLength, .inputs = kChannels, .outputs = 1});
  sp::Model<double> model(mesh, sp::sequence<double>(std::move(convolution), std::move(bend), std::move(sum)),
                          [&](auto bytes) { return world.allocate(bytes); },
                          {.row = sp::data_row("ddp", {"dp"}), .parameter = sinew::DType::F64});
  sp::Optimizer optimizer(model.data().memory(), sp::AdamOptions{.rate = 0.03});

  const sp::KeyedRandom random(1, "series");  // it learns how much the first series has risen since the last step
  std::vector<double> x(kLength * kIn), out(kLength);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = random.uniform(i) - 0.5;
  for (int step = 0; step < 200; ++step) {
    model.forward({}, x.data(), out.data());
    double loss = 0;
    for (std::size_t t = 0; t < kLength; ++t) {
      out[t] -= x[t * kIn] - (t > 0 ? x[(t - 1) * kIn] : 0);
      loss += out[t] * out[t] / kLength;
      out[t] *= 2.0 / kLength;
    }
    model.backward(out.data(), nullptr);
    optimizer.update(model.data().finish_backward());
    model.data().updated();
    if (world.rank() == 0 && step % 66 == 0) std::printf("step %d loss %.10f\n", step, loss);
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "modules_own_module: %s\n", e.what());
  return 1;
}

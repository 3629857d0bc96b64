// A multilayer perceptron that is trained by hand with tensors that compute. Its weights are cut over all ranks: the
// columns of the first one, the rows of the second one. Rank 0 also trains the same on a mesh of its own and compares.
// Try: sinew-run -n 4 build/release/bin/distributed_tensor_example
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/distributed_tensor/elementwise.hpp>
#include <sinew/parallel/distributed_tensor/layer_norm.hpp>
#include <sinew/parallel/distributed_tensor/matmul.hpp>
#include <sinew/parallel/distributed_tensor/reductions.hpp>

namespace sp = sinew::parallel;
using sp::DistributedTensor;

constexpr std::int64_t kRows = 32, kWidth = 16, kInner = 40;

/// The same numbers on any mesh. Each rank keeps its part.
DistributedTensor random_tensor(sp::Mesh& mesh, const std::string& name, std::vector<std::int64_t> shape,
                                const sp::Placements& placements) {
  sp::TensorSpec spec{name, sinew::DType::F64, std::move(shape), placements};
  std::vector<double> whole(static_cast<std::size_t>(spec.elements()));
  const sp::KeyedRandom random(1, name);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = random.uniform(i) - 0.5;
  return DistributedTensor::distribute(mesh, std::move(spec), sinew::const_buffer_of(whole));
}

DistributedTensor constant(sp::Mesh& mesh, const std::string& name, double value) {
  const std::vector<double> whole(kWidth, value);
  return DistributedTensor::distribute(mesh, {name, sinew::DType::F64, {kWidth}, {}}, sinew::const_buffer_of(whole));
}

/// Trains towards one fixed target, and returns the loss of each step.
std::vector<double> train(sp::Mesh& mesh, bool talks) {
  using sp::BinaryFunction, sp::ElementFunction, sp::Reduction;
  const sp::Placements columns({{"tp", sp::Shard{1}}}), rows({{"tp", sp::Shard{0}}});
  sp::HostBlas blas;
  const DistributedTensor x = random_tensor(mesh, "x", {kRows, kWidth}, {});
  const DistributedTensor target = random_tensor(mesh, "target", {kRows, kWidth}, {});
  DistributedTensor weight = constant(mesh, "norm.weight", 1), bias = constant(mesh, "norm.bias", 0);
  DistributedTensor up = random_tensor(mesh, "up", {kWidth, kInner}, columns);
  DistributedTensor down = random_tensor(mesh, "down", {kInner, kWidth}, rows);
  std::vector<double> losses;
  for (int step = 0; step < 100; ++step) {
    // The forward pass. Nothing is sent before the sum of `out`.
    const sp::LayerNormResult norm = layer_norm(x, weight, bias);
    const DistributedTensor inner = matmul(norm.out, up, blas);  // tp: Shard(1)
    const DistributedTensor bent = elementwise(ElementFunction::Gelu, inner);
    const DistributedTensor part = matmul(bent, down, blas);  // tp: Partial(sum)
    const DistributedTensor out = redistribute(part, {});     // one all_reduce
    const DistributedTensor off = elementwise(BinaryFunction::Subtract, out, target);
    const DistributedTensor loss = reduce(Reduction::Mean, elementwise(ElementFunction::Square, off));
    losses.push_back(loss.values<double>()[0]);
    if (talks && step == 0) {
      std::printf("%s", explain(matmul_operation(bent.spec(), down.spec()), mesh.shape()).c_str());
      std::printf(
          "%s",
          explain(elementwise_operation(BinaryFunction::Subtract, part.spec(), target.spec()), mesh.shape()).c_str());
    }
    // The backward pass. Each gradient lies as its weight does.
    const DistributedTensor dout = scale(off, 2.0 / static_cast<double>(kRows * kWidth));
    const sp::MatmulGradients second = matmul_backward(dout, bent, down, blas);
    const DistributedTensor dinner = elementwise_backward(ElementFunction::Gelu, second.a, inner);
    const sp::MatmulGradients first = matmul_backward(dinner, norm.out, up, blas);
    const sp::LayerNormGradients of_norm = layer_norm_backward(first.a, x, weight, norm);
    constexpr double kRate = 0.5;
    add_scaled(down, -kRate, second.b);
    add_scaled(up, -kRate, first.b);
    add_scaled(weight, -kRate, of_norm.weight);
    add_scaled(bias, -kRate, of_norm.bias);
  }
  return losses;
}

int main() try {
  auto world = sinew::World::from_environment();
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"tp", world.size()}}));
  const std::vector<double> losses = train(mesh, world.rank() == 0);
  // Each rank by itself is a mesh of one rank.
  sinew::Communicator alone = world.communicator().split(world.rank(), 0);
  sp::Mesh single(alone, sp::Factorisation({{"tp", 1}}));
  const std::vector<double> expected = train(single, false);
  double worst = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) worst = std::max(worst, std::abs(losses[i] - expected[i]));
  if (world.rank() == 0) {
    std::printf("loss %.10f at first, %.10f at last\n", losses.front(), losses.back());
    std::printf("on one rank: %s\n", worst < 1e-12 ? "the same losses" : "other losses");
  }
  return worst < 1e-12 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "distributed_tensor_example: %s\n", e.what());
  return 1;
}

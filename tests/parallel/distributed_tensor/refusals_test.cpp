#include <gtest/gtest.h>

#include <sinew/parallel/distributed_tensor/elementwise.hpp>
#include <sinew/parallel/distributed_tensor/embedding.hpp>
#include <sinew/parallel/distributed_tensor/layer_norm.hpp>
#include <sinew/parallel/distributed_tensor/matmul.hpp>
#include <sinew/parallel/distributed_tensor/reductions.hpp>
#include <sinew/parallel/distributed_tensor/softmax.hpp>
#include <sinew/parallel/distributed_tensor/views.hpp>
#include <support/worlds.hpp>

#include "../support/naive_blas.hpp"
#include "plain.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::complaint;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using sinew::test::require_part;
using Entries = std::vector<Placements::Entry>;
using Shape = std::vector<std::int64_t>;

/// Tensors of a mesh of two ranks.
struct Tensors {
  explicit Tensors(World& world)
      : mesh(world.communicator(), Factorisation({{"tp", 2}})), other(world.communicator(), mesh.shape()) {}

  DistributedTensor on(Mesh& where, const std::string& name, const Shape& shape, DType dtype = DType::F32) {
    return DistributedTensor(where, {name, dtype, shape, {}});
  }
  DistributedTensor of(const std::string& name, const Shape& shape, DType dtype = DType::F32) {
    return on(mesh, name, shape, dtype);
  }

  Mesh mesh, other;
  NaiveBlas blas;
};

void require_says(const std::function<void()>& call, const std::string& expected) {
  require_part(complaint(call), expected);
}

TEST(DistributedRefusals, NameShapesAskedFoundAndExpected) {
  on_threads(2, only("inproc"), [](World& world) {
    Tensors t(world);
    const DistributedTensor x = t.of("x", {4, 6}), w = t.of("w", {5, 3}), row = t.of("row", {3});
    require_says([&] { matmul(x, w, t.blas); },
                 "matmul: 'x' (f32 [4, 6]) has 6 as its inner dimension, and 'w' (f32 [5, 3]) has 5; expected equal");
    require_says([&] { matmul(x, row, t.blas); }, "matmul: 'row' (f32 [3]) has 1 dimensions; expected 2 or more");
    require_says(
        [&] {
          matmul(t.of("a", {2, 4, 6}), t.of("b", {3, 6, 2}), t.blas);
        },
        "'b' (f32 [3, 6, 2]) has 3 in dimension 0, where other operands have 2; expected 2 or 1");
    require_says(
        [&] {
          matmul_backward(w, x, t.of("v", {6, 3}), t.blas);
        },
        "matmul_backward: the gradient 'w' (f32 [5, 3]) has the shape [5, 3]; expected [4, 3]");
    require_says([&] { elementwise(BinaryFunction::Add, x, w); },
                 "add: 'w' (f32 [5, 3]) has 5 in dimension 0, where other operands have 4; expected 4 or 1");
    require_says([&] { elementwise_backward(ElementFunction::Relu, w, x); },
                 "relu_backward: 'x' (f32 [4, 6]) has the shape [4, 6]; expected [5, 3]");
    require_says(
        [&] {
          reduce(Reduction::Sum, x, {{2}, false});
        },
        "sum: dimension 2 of 'x' (f32 [4, 6]); expected one of its 2 dimensions, from -2 to 1");
    require_says(
        [&] {
          reduce(Reduction::Sum, x, {{1, -1}, false});
        },
        "dimension 1 of 'x' (f32 [4, 6]) is named twice");
    require_says([&] { reduce(Reduction::Max, t.of("none", {0, 2}), {{0}, false}); }, "expected 1 or more");
    require_says([&] { layer_norm(x, row, row); }, "layer_norm: 'row' (f32 [3]) has the shape [3]; expected [6]");
    require_says([&] { softmax(x, 5); }, "softmax: dimension 5 of 'x'");
    require_says([&] { embedding(x, w); }, "embedding: tokens 'x' (f32 [4, 6]) are of f32; expected i64");
    require_says([&] { reshape(x, {5, -1}); }, "reshape: 'x' (f32 [4, 6]) to [5, -1]; expected a shape of 24 elements");
    require_says([&] { permute(x, std::array{0, 0}); }, "permute: dimension 0 of 'x' (f32 [4, 6]) is named twice");
  });
}

TEST(DistributedRefusals, NameDtypesAndMeshes) {
  on_threads(2, only("inproc"), [](World& world) {
    Tensors t(world);
    const DistributedTensor x = t.of("x", {4, 6}), w = t.of("w", {6, 3}, DType::F64);
    require_says([&] { matmul(x, w, t.blas); },
                 "matmul: 'x' (f32 [4, 6]) and 'w' (f64 [6, 3]) differ in dtype; expected one dtype");
    require_says([&] { elementwise(ElementFunction::Exp, t.of("n", {2}, DType::I32)); },
                 "exp: 'n' (i32 [2]) is of i32; expected f64, f32, bf16 or f16");
    require_says(
        [&] {
          elementwise(BinaryFunction::Add, x, t.on(t.other, "y", {4, 6}));
        },
        "add: 'x' (f32 [4, 6]) is on mesh 'tp 2', and 'y' (f32 [4, 6]) on another mesh 'tp 2'; expected one mesh");
    require_says([&] { static_cast<void>(x.values<double>()); }, "asked for f64; expected f32");
  });
}

TEST(DistributedRefusals, SendNothing) {
  WorldOptions options = only("tcp");
  options.count_sent = true;
  sinew::test::in_processes(2, options, [](World& world) {
    Tensors t(world);
    const DistributedTensor x = t.of("x", {4, 6}), w = t.of("w", {5, 3});
    const std::vector<std::uint64_t> before = world.sent_bytes();
    require(complaint([&] { matmul(x, w, t.blas); }) != "no complaint", "refused");
    require(world.sent_bytes() == before, "nothing is sent");
  });
}

TEST(DistributedRefusals, ReachAllRanks_WhereOneRankHasTheFault) {
  on_threads(2, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}}));
    const std::vector<float> data(mesh.rank() == 0 ? 6 : 5);
    const TensorSpec spec{"x", DType::F32, {4, 3}, Entries{{"tp", Shard{0, {}}}}};
    const std::string text = complaint([&] { DistributedTensor::from_local(mesh, spec, const_buffer_of(data)); });
    require_part(text, mesh.rank() == 1 ? "the local buffer has 20 bytes; expected 24 for tp: Shard(0)"
                                        : "rank 1 has refused it");
    const TensorSpec own{"x", DType::F32, {4, 3 + mesh.rank()}, {}};
    require_part(complaint([&] { DistributedTensor(mesh, own); }), "expected the same on all ranks");
    require_part(complaint([&] {
                   DistributedTensor(mesh, {"x", DType::F32, {4}, Entries{{"dp", Shard{0, {}}}}});
                 }),
                 "dp");
  });
}

TEST(DistributedRefusals, NameAxesThatOverlap) {
  on_threads(4, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}, {"dp", 2}}), {"tp", "dp", "tp-dp"});
    const DistributedTensor both(mesh, {"both", DType::F32, {8, 8}, Entries{{"tp-dp", Shard{0, {}}}}});
    const DistributedTensor one(mesh, {"one", DType::F32, {8, 8}, Entries{{"dp", Shard{0, {}}}}});
    NaiveBlas blas;
    require_part(complaint([&] { matmul(both, one, blas); }), "its operands have placements along tp-dp, dp");
    const DistributedTensor square = matmul(both, both, blas);
    require(square.placements() == both.placements(),
            "a flattened axis is an axis: " + square.placements().to_string());
  });
}

TEST(UserElementFunctions, EndTheWorldWithTheirText_WhenTheyThrow) {
  std::array<std::string, 2> texts;
  on_threads(2, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 2}}));
    const DistributedTensor x(mesh, {"x", DType::F32, {4}, Entries{{"tp", Shard{0, {}}}}});
    const auto fail_on_one = [&](double v) -> double {
      if (mesh.rank() == 1) throw std::runtime_error("no such number");
      return v;
    };
    try {
      const DistributedTensor y = elementwise({"own", fail_on_one, fail_on_one}, x);
      redistribute(y, {});
    } catch (const std::exception& e) {
      texts[static_cast<std::size_t>(mesh.rank())] = e.what();
    }
  });
  EXPECT_EQ(texts[1], "no such number");
  EXPECT_NE(texts[0].find("own of an element"), std::string::npos) << texts[0];
}

}  // namespace
}  // namespace sinew::parallel::test

#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
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

using sinew::test::in_processes;
using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using testing::HasSubstr;
using Entries = std::vector<Placements::Entry>;

const Placement kCut0 = Shard{0, {}}, kCut1 = Shard{1, {}}, kSum = Partial{};

Placements tp(const Placement& placement) { return Entries{{"tp", placement}}; }

TensorSpec f32(const std::string& name, const std::vector<std::int64_t>& shape, const Placements& placements) {
  return {name, DType::F32, shape, placements};
}

const Factorisation kFour({{"tp", 4}});

/// The placements of the first result, if nothing is sent.
Placements free_result(const Operation& op, const Factorisation& mesh = kFour) {
  const OperationPlan plan = plan_operation(op, mesh);
  EXPECT_EQ(plan.chosen.sent_bytes(), 0) << plan.explain();
  return plan.chosen.results.front();
}

TEST(OperationPlans, SendNothing_WhereTheTextbookSendsNothing) {
  const auto x = [](const Placements& p) { return f32("x", {8, 16}, p); };
  const auto w = [](const Placements& p) { return f32("w", {16, 32}, p); };
  EXPECT_EQ(free_result(matmul_operation(x({}), w(tp(kCut1)))), tp(kCut1));        // column parallel
  EXPECT_EQ(free_result(matmul_operation(x(tp(kCut1)), w(tp(kCut0)))), tp(kSum));  // row parallel
  EXPECT_EQ(free_result(matmul_operation(x(tp(kCut0)), w({}))), tp(kCut0));        // data parallel
  EXPECT_EQ(free_result(matmul_operation(x(tp(kSum)), w({}))), tp(kSum));          // linear
  EXPECT_EQ(free_result(matmul_operation(x({}), w({}))), Placements());
  EXPECT_EQ(free_result(matmul_operation(x(tp(kCut1)), w({}))), tp(kSum));  // w is cut at no cost
  const auto table = [](const Placement& p) { return f32("table", {32, 8}, tp(p)); };
  const TensorSpec tokens{"tokens", DType::I64, {6}, {}};
  EXPECT_EQ(free_result(embedding_operation(tokens, table(kCut0))), tp(kSum));
  EXPECT_EQ(free_result(embedding_operation(tokens, table(kCut1))), tp(kCut1));
  EXPECT_EQ(free_result(reduce_operation(Reduction::Sum, x(tp(kCut1)), {{1}, false})), tp(kSum));
  EXPECT_EQ(free_result(reduce_operation(Reduction::Mean, x(tp(kCut1)), {{1}, false})), tp(kSum));
  EXPECT_EQ(free_result(reduce_operation(Reduction::Max, x(tp(kCut1)), {{1}, false})), tp(Partial{ReduceOp::Max}));
  EXPECT_EQ(free_result(reduce_operation(Reduction::Max, x(tp(kCut0)), {{1}, false})), tp(kCut0));
  const auto add = [](const TensorSpec& a, const TensorSpec& b) {
    return elementwise_operation(BinaryFunction::Add, a, b);
  };
  EXPECT_EQ(free_result(add(x(tp(kSum)), x(tp(kSum)))), tp(kSum));
  EXPECT_EQ(free_result(add(x(tp(kSum)), f32("bias", {16}, {}))), tp(kSum));  // the bias is added on one rank
  EXPECT_EQ(free_result(add(x(tp(kCut1)), f32("bias", {16}, {}))), tp(kCut1));
  EXPECT_EQ(free_result(reshape_operation(x(tp(kCut1)), {8, 4, 4})), tp(kCut1));
  EXPECT_EQ(free_result(reshape_operation(x(tp(kCut0)), {128})), tp(kCut0));
  EXPECT_EQ(free_result(permute_operation(x(tp(kCut1)), std::array{1, 0})), tp(kCut0));
  const Factorisation two({{"tp", 2}, {"dp", 2}});
  const Placements rows = Entries{{"dp", kCut0}};
  EXPECT_EQ(free_result(matmul_operation(x(rows), w(tp(kCut1))), two),
            Placements(Entries{{"dp", kCut0}, {"tp", kCut1}}));
}

TEST(OperationPlans, ReduceAPartial_BeforeAFunctionThatIsNotLinear) {
  const TensorSpec x = f32("x", {8, 16}, tp(kSum));
  const OperationPlan product = plan_operation(elementwise_operation(BinaryFunction::Multiply, x, x), kFour);
  // Both are reduced into shards, each for half of an all_reduce.
  EXPECT_EQ(product.chosen.sent_bytes(), 2 * 3 * 8 * 16 * 4) << product.explain();
  EXPECT_TRUE(std::holds_alternative<Shard>(product.chosen.results.front().along("tp"))) << product.explain();
}

TEST(OperationPlans, ExchangeSumsOfWideRows_AndMoveNarrowOnes) {
  const auto norm = [](std::int64_t width) {
    return layer_norm_operation(f32("x", {64, width}, tp(kCut1)), f32("weight", {width}, {}), f32("bias", {width}, {}));
  };
  // Two all_reduces of 64 numbers send 2 * 2 * 3 * 64 * 4 bytes, an all_to_all 3/4 of the tensor.
  const OperationPlan wide = plan_operation(norm(512), kFour);
  EXPECT_EQ(wide.chosen.sent_bytes(), 2 * 2 * 3 * 64 * 4) << wide.explain();
  EXPECT_EQ(wide.chosen.results.front(), tp(kCut1));
  EXPECT_THAT(wide.explain(), HasSubstr("2 all_reduces of numbers along tp"));
  const OperationPlan narrow = plan_operation(norm(8), kFour);
  EXPECT_EQ(narrow.chosen.sent_bytes(), 64 * 8 * 4 * 3 / 4) << narrow.explain();
  EXPECT_EQ(narrow.chosen.results.front(), tp(kCut0));
  EXPECT_THAT(narrow.explain(), HasSubstr("tp: Shard(1) -> Shard(0) by all_to_all"));
  EXPECT_EQ(plan_operation(softmax_operation(f32("x", {64, 512}, tp(kCut1))), kFour).chosen.sent_bytes(),
            2 * 2 * 3 * 64 * 4);
}

TEST(OperationPlans, ExplainWhatMoves_WithBytesAndReason) {
  const TensorSpec x = f32("x", {8, 16}, tp(kCut0)), w = f32("w", {16, 32}, tp(kCut1));
  const std::string text = explain(matmul_operation(x, w), kFour);
  EXPECT_THAT(text, HasSubstr("matmul of 'x' (f32 [8, 16]) and 'w' (f32 [16, 32]), rule ac,cb->ab\n"));
  EXPECT_THAT(text, HasSubstr("tp: Shard(0) -> Replicate by all_gather"));
  EXPECT_THAT(text, HasSubstr(fmt::format("{} B sent", 3 * 8 * 16 * 4)));
  EXPECT_THAT(text, HasSubstr("tp: Shard(1): it stays"));
  EXPECT_THAT(text, HasSubstr("reason: it sends the fewest bytes\n"));
  EXPECT_THAT(text, HasSubstr("chosen"));
  EXPECT_THAT(text, HasSubstr("rejected"));
}

TEST(OperationPlans, TakeTheFewestBytesOfAllCandidates_ForAllPlacements) {
  const std::vector<Axis> axes{{"tp", 2}, {"dp", 2}};
  const Factorisation mesh(axes);
  for (const Placements& a : all_placements(axes, {5, 3})) {
    for (const Placements& b : all_placements(axes, {3, 4})) {
      const OperationPlan plan = plan_operation(matmul_operation(f32("a", {5, 3}, a), f32("b", {3, 4}, b)), mesh);
      const PlacedOperation& chosen = plan.chosen;
      EXPECT_EQ(plan.rejected.empty(), a == Placements() && b == Placements());  // without an axis there is no choice
      for (const PlacedOperation& other : plan.rejected) {
        EXPECT_TRUE(chosen.sent_bytes() == 0 ||
                    (other.sent_bytes() > 0 &&
                     chosen.sent_bytes() + chosen.pending_bytes <= other.sent_bytes() + other.pending_bytes))
            << plan.explain();
      }
    }
  }
}

TEST(OperationPlans, AreWhatRuns_ForAllPlacements) {
  const std::vector<Axis> axes{{"tp", 2}, {"dp", 2}};
  on_threads(4, only("inproc"), [&](World& world) {
    Mesh mesh(world.communicator(), Factorisation(axes));
    const Plain a = any_plain({5, 3}, 1), b = any_plain({3, 4}, 2);
    NaiveBlas blas;
    for (const Placements& of_a : all_placements(axes, a.shape)) {
      for (const Placements& of_b : all_placements(axes, b.shape)) {
        const DistributedTensor left = placed(mesh, "a", a, of_a), right = placed(mesh, "b", b, of_b);
        const OperationPlan plan = plan_operation(matmul_operation(left.spec(), right.spec()), mesh.shape());
        const Placements found = matmul(left, right, blas).placements();
        require(found == plan.chosen.results.front(), plan.explain() + "found " + found.to_string());
      }
    }
  });
}

WorldOptions counted() {
  WorldOptions options = only("tcp");
  options.config.tune = {"all_reduce:0-1GiB:ring", "reduce_scatter:0-1GiB:ring", "all_gather:0-1GiB:ring",
                         "all_to_all:0-1GiB:pairwise"};
  options.count_sent = true;
  return options;
}

/// The bytes that all ranks send while `body` runs.
std::uint64_t sent_by_all(World& world, const std::function<void()>& body) {
  const auto sent = [&] {
    const std::vector<std::uint64_t> all = world.sent_bytes();
    return std::accumulate(all.begin(), all.end(), std::uint64_t{0});
  };
  const std::uint64_t before = sent();
  body();
  std::uint64_t mine = sent() - before;
  world.communicator().all_reduce(std::span(&mine, 1)).get();
  return mine;
}

TEST(OperationTraffic, OfAColumnAndARowParallelProduct_IsOneAllReduce) {
  in_processes(4, counted(), [](World& world) {
    Mesh mesh(world.communicator(), kFour);
    NaiveBlas blas;
    const auto tensor = [&](const std::vector<std::int64_t>& shape, const Placements& p) {
      return DistributedTensor(mesh, f32("t", shape, p));
    };
    const DistributedTensor x = tensor({32, 64}, {}), up = tensor({64, 128}, tp(kCut1)),
                            down = tensor({128, 64}, tp(kCut0));
    std::vector<DistributedTensor> out;
    const std::uint64_t pair = sent_by_all(
        world, [&] { out.push_back(matmul(elementwise(ElementFunction::Gelu, matmul(x, up, blas)), down, blas)); });
    require(pair == 0, fmt::format("the products send {} bytes", pair));
    const std::uint64_t sum = sent_by_all(world, [&] { out.push_back(redistribute(out[0], {})); });
    require(sum == 2 * 3 * 32 * 64 * 4, fmt::format("the sum sends {} bytes", sum));
    // In the backward pass only the gradient of x is summed.
    const std::uint64_t backward = sent_by_all(world, [&] {
      const DistributedTensor h = matmul(x, up, blas);
      const MatmulGradients second = matmul_backward(out[1], h, down, blas);
      const MatmulGradients first = matmul_backward(second.a, x, up, blas);
      require(second.b.placements() == tp(kCut0) && first.b.placements() == tp(kCut1), "gradients lie as the weights");
      out.push_back(redistribute(first.a, {}));
    });
    require(backward == 2 * 3 * 32 * 64 * 4, fmt::format("the backward pass sends {} bytes", backward));
  });
}

TEST(OperationTraffic, IsWhatThePlanSays_ForAllPlacements) {
  in_processes(4, counted(), [](World& world) {
    NaiveBlas blas;
    for (const std::vector<Axis>& axes : {std::vector<Axis>{{"tp", 4}}, std::vector<Axis>{{"tp", 2}, {"dp", 2}}}) {
      Mesh mesh(world.communicator(), Factorisation(axes));
      for (const Placements& of_a : all_placements(axes, {16, 32})) {
        for (const Placements& of_b : all_placements(axes, {32, 64})) {
          const auto is_uneven = [](const Placements& p) { return p.to_string().find(": 0, ") != std::string::npos; };
          if (is_uneven(of_a) || is_uneven(of_b)) continue;
          const DistributedTensor a = DistributedTensor::unchecked(mesh, f32("a", {16, 32}, of_a));
          const DistributedTensor b = DistributedTensor::unchecked(mesh, f32("b", {32, 64}, of_b));
          const OperationPlan plan = plan_operation(matmul_operation(a.spec(), b.spec()), mesh.shape());
          const std::uint64_t found = sent_by_all(world, [&] { static_cast<void>(matmul(a, b, blas)); });
          require(static_cast<std::int64_t>(found) == plan.chosen.sent_bytes(),
                  fmt::format("{}sent {}", plan.explain(), found));
        }
      }
      for (const std::int64_t width : {8, 512}) {
        const Placements columns = tp(kCut1);
        const DistributedTensor x = DistributedTensor::unchecked(mesh, f32("x", {64, width}, columns));
        const DistributedTensor weight = DistributedTensor::unchecked(mesh, f32("weight", {width}, {}));
        const OperationPlan plan =
            plan_operation(layer_norm_operation(x.spec(), weight.spec(), weight.spec()), mesh.shape());
        const std::uint64_t found = sent_by_all(world, [&] { static_cast<void>(layer_norm(x, weight, weight)); });
        require(static_cast<std::int64_t>(found) == plan.chosen.sent_bytes(),
                fmt::format("{}sent {}", plan.explain(), found));
      }
    }
  });
}

}  // namespace
}  // namespace sinew::parallel::test

#include <gtest/gtest.h>

#include <sinew/parallel/distributed_tensor/embedding.hpp>
#include <sinew/parallel/distributed_tensor/views.hpp>
#include <support/worlds.hpp>

#include "plain.hpp"

namespace sinew::parallel::test {
namespace {

using sinew::test::on_threads;
using sinew::test::only;
using sinew::test::require;
using Shape = std::vector<std::int64_t>;

TEST(DistributedPermute, EqualsThePermutationOnOneRank_ForAllPlacements) {
  PlacedCase three;
  three.inputs = {any_plain({2, 3, 5}, 1)};
  three.expected = {zeros({5, 2, 3}), zeros({2, 5, 3})};
  each_index({2, 3, 5}, [&](const Shape& i) {
    three.expected[0].at({i[2], i[0], i[1]}) = three.inputs[0].at(i);
    three.expected[1].at({i[0], i[2], i[1]}) = three.inputs[0].at(i);
  });
  three.run = [](std::vector<DistributedTensor>& in) {
    return std::vector{permute(in[0], std::array{2, 0, 1}), transpose(in[0], -1, 1)};
  };
  expect_everywhere(small_meshes(), {three});
}

TEST(DistributedReshape, KeepsTheElements_ForAllPlacementsAndShapes) {
  std::vector<PlacedCase> cases;
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{4, 6}, {4, 2, 3}}, {{4, 2, 3}, {8, 3}}, {{4, 6}, {24}},   {{24}, {4, 6}},      {{4, 6}, {6, 4}},
      {{3, 4}, {4, 3}},    {{1, 5}, {5}},       {{5}, {1, 5, 1}}, {{2, 0, 3}, {0, 6}}, {{}, {1, 1}},
      {{1}, {}},           {{2, 3, 4}, {6, 4}}, {{8}, {1, 4, 2}}};
  for (const auto& [from, to] : shapes) {
    PlacedCase one;
    one.inputs = {any_plain(from, 2)};
    one.expected = {{to, one.inputs[0].data}};
    one.run = [to = to](std::vector<DistributedTensor>& in) { return std::vector{reshape(in[0], to)}; };
    cases.push_back(std::move(one));
  }
  PlacedCase open;
  open.inputs = {any_plain({4, 6}, 2)};
  open.expected = {{{2, 2, 6}, open.inputs[0].data}};
  open.run = [](std::vector<DistributedTensor>& in) { return std::vector{reshape(in[0], {2, -1, 6})}; };
  cases.push_back(std::move(open));
  expect_everywhere(small_meshes(), cases);
}

/// Tokens on a mesh.
DistributedTensor tokens_on(Mesh& mesh, const Shape& shape, const std::vector<std::int64_t>& whole,
                            const Placements& placements) {
  DistributedTensor made = DistributedTensor::unchecked(mesh, {"tokens", DType::I64, shape, placements});
  const Box box = made.box();
  const auto values = made.values<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = whole[static_cast<std::size_t>(number_in_whole(shape, box, static_cast<std::int64_t>(i)))];
  return made;
}

struct EmbeddingCase {
  Shape tokens;
  std::int64_t vocabulary, width;
};

void expect_embedding(const EmbeddingCase& e) {
  const auto count = zeros(e.tokens).data.size();
  std::vector<std::int64_t> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(static_cast<std::int64_t>(i * i + 2 * i) % e.vocabulary);
  const Plain table = any_plain({e.vocabulary, e.width}, 1);
  Shape shape = e.tokens;
  shape.push_back(e.width);
  const Plain dout = any_plain(shape, 2);
  Plain out = zeros(shape), gradient = zeros(table.shape);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::int64_t w = 0; w < e.width; ++w) {
      const std::size_t at = i * static_cast<std::size_t>(e.width) + static_cast<std::size_t>(w);
      out.data[at] = table.at({tokens[i], w});
      gradient.at({tokens[i], w}) += dout.data[at];
    }
  }
  for (const auto& axes : small_meshes()) {
    std::vector<PlacedCase> cases;
    for (const Placements& of_tokens : all_placements(axes, e.tokens, {})) {
      PlacedCase one;
      one.inputs = {table, dout};
      one.expected = {out, gradient};
      one.run = [&tokens, &e, of_tokens](std::vector<DistributedTensor>& in) {
        const DistributedTensor t = tokens_on(in[0].mesh(), e.tokens, tokens, of_tokens);
        return std::vector{embedding(t, in[0]), embedding_backward(in[1], t, in[0])};
      };
      one.most = 15;
      cases.push_back(std::move(one));
    }
    expect_everywhere({axes}, cases);
  }
}

TEST(DistributedEmbedding, EqualsTheRowsAndTheirGradient_ForAllPlacements) {
  for (const EmbeddingCase& e : {EmbeddingCase{{5}, 7, 3}, {{2, 3}, 2, 2}, {{0}, 3, 2}, {{4}, 1, 1}})
    expect_embedding(e);
}

TEST(DistributedEmbedding, NamesABadToken_OnAllRanks) {
  on_threads(3, only("inproc"), [](World& world) {
    Mesh mesh(world.communicator(), Factorisation({{"tp", 3}}));
    const Placements cut(std::vector<Placements::Entry>{{"tp", Shard{0, {}}}});
    const DistributedTensor tokens = tokens_on(mesh, {6}, {0, 1, 2, 9, 1, 0}, cut);
    const DistributedTensor table(mesh, {"table", DType::F32, {5, 2}, {}});
    const std::string text = sinew::test::complaint([&] { embedding(tokens, table); });
    if (mesh.rank() == 1) {
      sinew::test::require_part(text, "token 9 at place 3 of tokens 'tokens' (i64 [6])");
      sinew::test::require_part(text, "expected one of the 5 rows of table 'table'");
    } else {
      sinew::test::require_part(text, "rank 1 has refused it");
    }
  });
}

}  // namespace
}  // namespace sinew::parallel::test

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <sinew/parallel/distributed_tensor/embedding.hpp>
#include <sinew/parallel/distributed_tensor/operation_labels.hpp>
#include <sinew/parallel/distributed_tensor/run_operation.hpp>
#include <sinew/parallel/placement/redistribution/consent.hpp>

namespace sinew::parallel {
namespace {

/// The labels of an embedding: "ab" of tokens, "v" of the vocabulary, "w" of the width.
struct EmbeddingLabels {
  std::string tokens, table, out;

  EmbeddingLabels(std::string_view name, const TensorSpec& of_tokens, const TensorSpec& of_table) {
    if (of_tokens.dtype != DType::I64)
      refuse_operation(
          name, fmt::format("tokens {} are of {}; expected i64", of_tokens.to_string(), name_of(of_tokens.dtype)));
    for (const auto& [axis, placement] : of_tokens.placements.entries()) {
      if (std::holds_alternative<Partial>(placement))
        refuse_operation(name, fmt::format("tokens {} are {} along {}; expected Replicate or Shard",
                                           of_tokens.to_string(), to_string(placement), axis));
    }
    require_float_dtypes(name, std::array{of_table});
    if (of_table.shape.size() != 2)
      refuse_operation(name, fmt::format("table {} has {} dimensions; expected [vocabulary, width]",
                                         of_table.to_string(), of_table.shape.size()));
    LabelLetters letters;
    const std::string vocabulary = letters.next(1), width = letters.next(1);
    tokens = letters.next(of_tokens.shape.size());
    table = vocabulary + width;
    out = tokens + width;
  }
};

/// Says why the first bad token of this rank is bad. Empty: there is none.
std::string fault_of_tokens(const DistributedTensor& tokens, const TensorSpec& table) {
  const std::span<const std::int64_t> mine = tokens.values<std::int64_t>();
  const std::int64_t vocabulary = table.shape[0];
  const auto bad = std::ranges::find_if(mine, [&](std::int64_t t) { return t < 0 || t >= vocabulary; });
  if (bad == mine.end()) return {};
  return fmt::format("embedding: token {} at place {} of tokens {}; expected one of the {} rows of table {}", *bad,
                     number_in_whole(tokens.spec().shape, tokens.box(), bad - mine.begin()), tokens.spec().to_string(),
                     vocabulary, table.to_string());
}

}  // namespace

Operation embedding_operation(const TensorSpec& tokens, const TensorSpec& table) {
  const EmbeddingLabels labels("embedding", tokens, table);
  TensorSpec out{"embedding", table.dtype, tokens.shape, {}};
  out.shape.push_back(table.shape[1]);
  return {
      .name = "embedding",
      .rule = {.labels = join_labels(std::array{labels.tokens, labels.table}, std::array{labels.out}), .linear = {1}},
      .operands = {tokens, table},
      .results = {std::move(out)}};
}

DistributedTensor embedding(const DistributedTensor& tokens, const DistributedTensor& table,
                            const CallOptions& options) {
  require_one_mesh("embedding", std::array{&tokens, &table});
  const Operation op = embedding_operation(tokens.spec(), table.spec());
  require_consent(fmt::format("tokens {} in table {}", tokens.spec().to_string(), table.spec().to_string()),
                  fault_of_tokens(tokens, table.spec()), tokens.mesh(), options, "embedding");
  return run_single(op, {&tokens, &table}, options, [&]<class T>(LocalParts<T>& parts) {
    const Box rows = parts.in_box(1);
    const std::int64_t width = rows.extent(1), count = parts.in_box(0).elements();
    const std::int64_t* token = parts.integers(0);
    for (std::int64_t i = 0; i < count; ++i) {
      if (token[i] < rows.first[0] || token[i] >= rows.last[0]) continue;
      std::copy_n(parts.in(1) + (token[i] - rows.first[0]) * width, width, parts.out(0) + i * width);
    }
  });
}

DistributedTensor embedding_backward(const DistributedTensor& dout, const DistributedTensor& tokens,
                                     const DistributedTensor& table, const CallOptions& options) {
  constexpr std::string_view kName = "embedding_backward";
  require_one_mesh(kName, std::array{&dout, &tokens, &table});
  const EmbeddingLabels labels(kName, tokens.spec(), table.spec());
  require_float_dtypes(kName, std::array{dout.spec(), table.spec()});
  std::vector<std::int64_t> expected = tokens.spec().shape;
  expected.push_back(table.spec().shape[1]);
  if (dout.spec().shape != expected)
    refuse_operation(kName, fmt::format("{} has the shape {}; expected {}", dout.spec().to_string(),
                                        shape_text(dout.spec().shape), shape_text(expected)));
  const Operation op{
      .name = std::string(kName),
      .rule = {.labels = join_labels(std::array{labels.tokens, labels.out}, std::array{labels.table}), .linear = {1}},
      .operands = {tokens.spec(), dout.spec()},
      .results = {{table.spec().name + ".grad", table.spec().dtype, table.spec().shape, {}}},
      .has_preferred = true,
      .preferred = table.placements()};
  return run_single(op, {&tokens, &dout}, options, [&]<class T>(LocalParts<T>& parts) {
    const Box rows = parts.out_box(0);
    const std::int64_t width = rows.extent(1), count = parts.in_box(0).elements();
    const std::int64_t* token = parts.integers(0);
    for (std::int64_t i = 0; i < count; ++i) {
      if (token[i] < rows.first[0] || token[i] >= rows.last[0]) continue;
      const T* from = parts.in(1) + i * width;
      T* to = parts.out(0) + (token[i] - rows.first[0]) * width;
      for (std::int64_t c = 0; c < width; ++c) to[c] += from[c];
    }
  });
}

}  // namespace sinew::parallel

// A transformer block whose heads and inner elements are cut over all ranks, and between its layers the rows too
// (tensor and sequence parallelism).
// Try: sinew-run -n 4 build/release/bin/modules_block_tp_sp      1 to 6 ranks print the same losses
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/layer_norm.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/layers/vocabulary.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

namespace sp = sinew::parallel;

constexpr std::int64_t kSequences = 4, kLength = 12, kRows = kSequences * kLength, kWidth = 24, kInner = 60;
constexpr std::int64_t kVocabulary = 11;

sp::ModulePtr<double> norm(const sp::LayerGroup& group, const std::string& name) {
  return std::make_unique<sp::LayerNormModule<double>>(
      group, sp::LayerNormShape{.name = name, .rows = kRows, .width = kWidth});
}

sp::ModulePtr<double> block(const sp::LayerGroup& group, sinew::Communicator& alone) {
  auto attention = std::make_unique<sp::AttentionModule<double>>(
      group, sp::ContextGroup{alone, alone},
      sp::AttentionShape{.name = "attention",
                         .width = kWidth,
                         .heads = 6,
                         .sequences = kSequences,
                         .positions = sp::SequenceCut::contiguous(kLength, 1)});
  auto up = std::make_unique<sp::ColumnModule<double>>(
      group, sp::LinearShape{.name = "up", .rows = kRows, .inputs = kWidth, .outputs = kInner});
  auto bend = std::make_unique<sp::Pointwise<double>>(up->out_elements(), sp::gelu<double>());
  auto down = std::make_unique<sp::RowModule<double>>(
      group, sp::LinearShape{.name = "down", .rows = kRows, .inputs = kInner, .outputs = kWidth});
  return sp::sequence<double>(sp::residual<double>(sp::sequence<double>(norm(group, "norm1"), std::move(attention))),
                              sp::residual<double>(sp::sequence<double>(norm(group, "norm2"), std::move(up),
                                                                        std::move(bend), std::move(down))));
}

int main() try {
  auto world = sinew::World::from_environment();
  sp::Mesh mesh(world.communicator(), sp::Factorisation({{"tp", world.size()}, {"dp", 1}}));
  sp::HostBlas blas;
  const sp::LayerGroup group{mesh.along("tp"), &blas, true};  // true: rows are cut between layers
  sinew::Communicator alone;                                  // each rank has whole sequences

  auto tokens = std::make_unique<sp::EmbeddingModule<double>>(
      group, sp::EmbeddingShape{.name = "tokens", .rows = kRows, .vocabulary = kVocabulary, .width = kWidth});
  auto head = std::make_unique<sp::ColumnModule<double>>(
      group, sp::LinearShape{.name = "head", .rows = kRows, .inputs = kWidth, .outputs = kVocabulary});
  auto loss = std::make_unique<sp::PredictionModule<double>>(
      group, sp::CrossEntropyShape{.name = "loss", .rows = kRows, .vocabulary = kVocabulary});
  sp::Model<double> model(
      mesh,
      sp::sequence<double>(std::move(tokens), block(group, alone), norm(group, "norm"), std::move(head),
                           std::move(loss)),
      [&](auto bytes) { return world.allocate(bytes); },
      {.row = sp::data_row("ddp", {"dp"}), .parameter = sinew::DType::F64, .gradient = sinew::DType::F64});
  sp::Optimizer optimizer(model.data().memory(), sp::AdamOptions{.rate = 0.01});

  std::vector<std::int64_t> text(kRows), next(kRows);
  for (std::int64_t i = 0; i < kRows; ++i) {
    const auto token = [](std::int64_t s, std::int64_t at) { return (at * at + 3 * s) % kVocabulary; };
    text[static_cast<std::size_t>(i)] = token(i / kLength, i % kLength);
    next[static_cast<std::size_t>(i)] = token(i / kLength, i % kLength + 1);
  }
  for (int step = 0; step < 60; ++step) {
    const sp::TokenLoss found = model.forward({.tokens = text, .targets = next}, nullptr, nullptr);
    model.backward(nullptr, nullptr);
    optimizer.update(model.data().finish_backward(), 1.0 / static_cast<double>(found.tokens));
    model.data().updated();
    if (world.rank() == 0 && step % 20 == 0)
      std::printf("step %d loss %.10f\n", step, found.sum / static_cast<double>(found.tokens));
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "modules_block_tp_sp: %s\n", e.what());
  return 1;
}

// Compares ZeRO++ (int8 weights, near copies, int4 gradients) with zero3. A small transformer learns a text on virtual
// hosts, once with plain exchanges and once with quantised ones. Prints a line of JSON with the loss of
// both, the mean of the last ten steps, and the share of bytes between hosts.
// Try: zeropp --text docs/design.md --dtype bf16
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sinew/collectives/virtual_cluster/virtual_world.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/collectives/world/virtual_ranks.hpp>
#include <sinew/parallel/common/host_blas.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/layer_norm.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/layers/vocabulary.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/optim/optimizer.hpp>

#include "command_line.hpp"

namespace {

namespace sp = sinew::parallel;

constexpr std::int64_t kVocabulary = 256, kWidth = 64, kLength = 32, kSequences = 16;
constexpr int kBlocks = 12, kHeads = 4, kHosts = 2, kNear = 2;
/// Initial weights are so large that the model leaves the frequencies of single bytes behind in its first steps.
/// With small weights it stays there for a time that depends on the last bits of all sums. The loss of step 200 then
/// depends on them too.
constexpr double kDeviation = 0.1;
constexpr sp::LinearOptions kLinear{.deviation = kDeviation};

template <class M, class... Arguments>
sp::ModulePtr<float> made(Arguments&&... arguments) {
  return std::make_unique<M>(std::forward<Arguments>(arguments)...);
}

/// A rank's part of the model and of the text.
class Rank {
 public:
  Rank(sinew::World& world, const std::string& text, sp::ModelOptions options)
      : world_(world),
        text_(text),
        mesh_(world.communicator(), sp::Factorisation({{"near", kNear}, {"far", kHosts}}), {"near", "far", "near-far"}),
        group_{none_, &blas_},
        sequences_(kSequences / world.size()),
        rows_(sequences_ * kLength),
        model_(
            mesh_, layers(), [&world](std::size_t bytes) { return world.allocate(bytes); }, options),
        adam_(model_.data().memory(), sp::AdamOptions{.rate = 2e-3}) {}

  /// The mean loss of a step.
  double step(int number) {
    load(number);
    const sp::TokenLoss mine = model_.forward({.tokens = tokens_, .targets = targets_}, nullptr, nullptr);
    model_.backward(nullptr, nullptr);
    const sp::WeightedLoss all = sp::total(world_.communicator(), {mine.sum, static_cast<double>(mine.tokens)});
    adam_.update(model_.data().finish_backward(), all.scale());
    model_.data().updated();
    return all.mean();
  }

 private:
  sp::ModulePtr<float> norm(const std::string& name) {
    return made<sp::LayerNormModule<float>>(group_, sp::LayerNormShape{.name = name, .rows = rows_, .width = kWidth});
  }
  sp::ModulePtr<float> block(int number) {
    const std::string name = "blocks." + std::to_string(number);
    const sp::ContextGroup context{none_, none_};
    return sp::unit<float>(
        name,
        sp::sequence<float>(
            sp::residual<float>(sp::sequence<float>(
                norm(name + ".norm1"), made<sp::AttentionModule<float>>(
                                           group_, context,
                                           sp::AttentionShape{.name = name + ".attention",
                                                              .width = kWidth,
                                                              .heads = kHeads,
                                                              .sequences = sequences_,
                                                              .positions = sp::SequenceCut::zig_zag(kLength, 1)},
                                           kLinear))),
            sp::residual<float>(sp::sequence<float>(
                norm(name + ".norm2"),
                made<sp::ColumnModule<float>>(
                    group_,
                    sp::LinearShape{.name = name + ".up", .rows = rows_, .inputs = kWidth, .outputs = 4 * kWidth},
                    kLinear),
                made<sp::Pointwise<float>>(rows_ * 4 * kWidth, sp::gelu<float>()),
                made<sp::RowModule<float>>(
                    group_,
                    sp::LinearShape{.name = name + ".down", .rows = rows_, .inputs = 4 * kWidth, .outputs = kWidth},
                    kLinear)))));
  }
  sp::ModulePtr<float> layers() {
    std::vector<sp::ModulePtr<float>> all;
    all.push_back(sp::unit<float>(
        "tokens",
        made<sp::EmbeddingModule<float>>(
            group_, sp::EmbeddingShape{.name = "tokens", .rows = rows_, .vocabulary = kVocabulary, .width = kWidth},
            kDeviation)));
    for (int b = 0; b < kBlocks; ++b) all.push_back(block(b));
    all.push_back(sp::unit<float>(
        "head",
        sp::sequence<float>(
            norm("norm"),
            made<sp::ColumnModule<float>>(
                group_, sp::LinearShape{.name = "head", .rows = rows_, .inputs = kWidth, .outputs = kVocabulary},
                kLinear),
            made<sp::PredictionModule<float>>(
                group_, sp::CrossEntropyShape{.name = "loss", .rows = rows_, .vocabulary = kVocabulary}))));
    return sp::sequence<float>(std::move(all));
  }

  /// Sequences begin all over the text.
  void load(int step) {
    tokens_.clear();
    targets_.clear();
    for (std::int64_t s = 0; s < sequences_; ++s) {
      const auto number = static_cast<std::uint64_t>(step * kSequences + world_.rank() * sequences_ + s);
      const std::uint64_t begin = number * 2654435761U % (text_.size() - kLength - 1);
      for (std::uint64_t i = begin; i < begin + kLength; ++i) {
        tokens_.push_back(static_cast<unsigned char>(text_[i]));
        targets_.push_back(static_cast<unsigned char>(text_[i + 1]));
      }
    }
  }

  sinew::World& world_;
  const std::string& text_;
  sinew::Communicator none_;
  sp::HostBlas blas_;
  sp::Mesh mesh_;
  sp::LayerGroup group_;
  std::int64_t sequences_, rows_;
  sp::Model<float> model_;
  sp::Optimizer adam_;
  std::vector<std::int64_t> tokens_, targets_;
};

struct Trained {
  double first_loss = 0, loss = 0;  ///< of the first step; the mean of the last ten
  std::uint64_t between_hosts = 0;  ///< bytes of a step, all ranks together
};

/// Bytes that this rank has sent to other hosts so far.
std::uint64_t sent_far(const sinew::World& world) {
  const std::vector<std::uint64_t> all = world.sent_bytes();
  std::uint64_t sum = 0;
  for (int r = 0; r < world.size(); ++r)
    sum += r / kNear == world.rank() / kNear ? 0 : all[static_cast<std::size_t>(r)];
  return sum;
}

/// parts: "none", "weights", "near", "gradients" or "all".
Trained train(const std::string& text, sinew::DType dtype, const std::string& parts, int steps) {
  sp::ModelOptions options{.row = sp::data_row("zero3", {"near-far"}), .parameter = dtype, .gradient = dtype};
  const bool all = parts == "all";
  if (all || parts == "weights") options.data.weights = sp::WeightWire::Int8;
  if (all || parts == "near") options.data.step.reshard_axes = "near";
  options.data.wire.int4 = all || parts == "gradients";
  if (options.data.wire.int4) options.data.step.scatter_axes = "near";
  sinew::WorldOptions world_options;
  world_options.count_sent = true;
  Trained result;
  sinew::run_virtual_ranks(
      sinew::make_virtual_world(sinew::virtual_cluster_from("xeon-2s:2+2")), world_options, [&](sinew::World& world) {
        Rank rank(world, text, options);
        std::vector<double> losses{rank.step(0)};
        // A step also sends losses, of a few bytes.
        const std::uint64_t before = sent_far(world);
        losses.push_back(rank.step(1));
        std::vector<std::uint64_t> sent{sent_far(world) - before};
        world.communicator().all_reduce(sent).get();
        for (int s = 2; s < steps; ++s) losses.push_back(rank.step(s));
        if (world.rank() != 0) return;
        result = {losses.front(), std::accumulate(losses.end() - 10, losses.end(), 0.0) / 10, sent[0]};
      });
  return result;
}

std::string read_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.size() < 10'000)
    throw std::runtime_error("--text " + file + ": " + std::to_string(text.size()) + " bytes, expected 10000 or more");
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  std::string file, dtype_name = "f32", parts = "all";
  int steps = 200;
  sinew::bench::CommandLine line("Trains a transformer on virtual hosts, with plain and with quantised exchanges");
  line.option("--text", file, "The file whose bytes are learnt").required();
  line.word("--dtype", dtype_name, "Of parameters and gradients", {"f32", "bf16", "f16"});
  line.word("--parts", parts, "Of ZeRO++", {"weights", "near", "gradients", "all"});
  line.option("--steps", steps, "Steps of training", {.least = 10});
  line.parse(argc, argv);
  try {
    const std::string text = read_text(file);
    const sinew::DType dtype = dtype_name == "f32"    ? sinew::DType::F32
                               : dtype_name == "bf16" ? sinew::DType::BF16
                                                      : sinew::DType::F16;
    const Trained plain = train(text, dtype, "none", steps), quantised = train(text, dtype, parts, steps);
    std::printf(
        "{\"dtype\": \"%s\", \"first_loss\": %.6f, \"plain_loss\": %.6f, \"loss\": %.6f, \"between_hosts\": %.6f}\n",
        dtype_name.c_str(), plain.first_loss, plain.loss, quantised.loss,
        static_cast<double>(quantised.between_hosts) / static_cast<double>(plain.between_hosts));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "zeropp: %s\n", e.what());
    return 1;
  }
}

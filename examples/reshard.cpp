// Gives the weights of a trainer to inference ranks of another layout, as reinforcement learning does at each step. The
// trainer has pp 2 x tp 2 and float weights. Inference has tp 3 and bfloat16 weights. Each expert is on one rank.
// Try: sinew-run -n 7 build/release/bin/reshard_example
#include <cstdio>
#include <list>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/reshard/placed_part.hpp>
#include <sinew/parallel/reshard/reshard.hpp>

namespace sp = sinew::parallel;

namespace {

constexpr int kTrainers = 4, kRanks = 7, kBlocks = 6;

/// Some tensors of a model, with the memory of one rank's parts.
struct Weights {
  std::list<std::vector<std::byte>> memory;
  std::vector<sp::CheckpointPart> parts;

  void add(sp::Tensor tensor, const sp::Factorisation& mesh, int rank) {
    auto& bytes = memory.emplace_back(sp::local_bytes(tensor, mesh, rank));
    tensor.buffer = {bytes.data(), bytes.size()};
    parts.push_back(sp::placed_part(tensor, mesh, rank));
  }
};

/// The blocks [first, last) of the model, cut along the axis `cut`. An empty `cut`: whole tensors.
Weights weights_of(int first, int last, sinew::DType dtype, const sp::Factorisation& mesh, int rank,
                   const std::string& cut) {
  const auto placed = [&](int dim) {
    return cut.empty() ? sp::Placements() : sp::Placements({{cut, sp::Shard{dim, {}}}});
  };
  Weights weights;
  for (int b = first; b < last; ++b) {
    const std::string block = "blocks." + std::to_string(b) + ".";
    weights.add({{block + "attention.in", dtype, {384, 128}, placed(0)}, {}}, mesh, rank);
    weights.add({{block + "attention.out", dtype, {128, 128}, placed(1)}, {}}, mesh, rank);
    weights.add({{block + "experts", dtype, {12, 128, 64}, placed(0)}, {}}, mesh, rank);
    weights.add({{block + "norm", dtype, {128}, {}}, {}}, mesh, rank);
  }
  return weights;
}

/// Writes other weights at each step, and the same into all copies.
void train(const Weights& weights, int step) {
  for (const sp::CheckpointPart& part : weights.parts) {
    auto* values = reinterpret_cast<float*>(part.buffer.data);
    for (std::int64_t k = 0; k < part.extent.elements(); ++k) {
      const std::int64_t number = sp::number_in_whole(part.item.shape, part.extent.box, part.extent.first + k);
      values[k] = 1.0F / static_cast<float>(1 + (number * 7 + std::ssize(part.item.name) + step) % 1000);
    }
  }
}

bool are_equal(const Weights& a, const Weights& b) { return a.memory == b.memory; }

}  // namespace

int main() try {
  auto world = sinew::World::from_environment();
  if (world.size() != kRanks)
    throw sinew::Error(sinew::Code::InvalidArgument, "expected 7 ranks: sinew-run -n 7 reshard_example");
  const int rank = world.rank();
  std::vector<int> hosts;
  for (const sinew::RankSpot& spot : world.cluster().ranks) hosts.push_back(spot.host);

  // Ranks 0 to 3 hold the trainer's weights. Ranks 4 to 6 want those of inference.
  Weights trained, used, whole, compared;
  const sp::Factorisation trainer({{"tp", 2}, {"pp", 2}}), inference({{"tp", 3}}), single({{"tp", 1}});
  if (rank < kTrainers) {
    const int stage = trainer.index(rank, "pp");
    trained = weights_of(stage * 3, stage * 3 + 3, sinew::DType::F32, trainer, rank, "tp");
  } else {
    used = weights_of(0, kBlocks, sinew::DType::BF16, inference, rank - kTrainers, "tp");
  }
  sp::Resharder to_inference(world.communicator(), trained.parts, used.parts, {.hosts = hosts});
  if (rank == 0) std::printf("%s", to_inference.plan().explain().c_str());

  // To check, rank 0 gets the whole model twice: from the trainer, and from inference.
  if (rank == 0) {
    whole = weights_of(0, kBlocks, sinew::DType::BF16, single, 0, "");
    compared = weights_of(0, kBlocks, sinew::DType::BF16, single, 0, "");
  }
  bool right = true;
  for (int step = 1; step <= 3; ++step) {
    train(trained, step);
    to_inference.run();
    sp::reshard(world.communicator(), trained.parts, whole.parts, {.hosts = hosts});
    sp::reshard(world.communicator(), used.parts, compared.parts, {.hosts = hosts});
    right = right && are_equal(whole, compared);
  }
  if (rank == 0) std::printf("three steps: inference has %s weights as one rank\n", right ? "the same" : "OTHER");
  return right ? 0 : 1;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "reshard_example: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}

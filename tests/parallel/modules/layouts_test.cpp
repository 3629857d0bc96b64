// A small transformer over tokens, put together from modules: under every layout it trains as on one rank.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/modules/compose.hpp>
#include <sinew/parallel/modules/layers/attention_module.hpp>
#include <sinew/parallel/modules/layers/dropout_module.hpp>
#include <sinew/parallel/modules/layers/experts_module.hpp>
#include <sinew/parallel/modules/layers/layer_norm.hpp>
#include <sinew/parallel/modules/layers/pointwise.hpp>
#include <sinew/parallel/modules/layers/scan_module.hpp>
#include <sinew/parallel/modules/layers/state_space_module.hpp>
#include <sinew/parallel/modules/layers/vocabulary.hpp>
#include <sinew/parallel/modules/models/model.hpp>
#include <sinew/parallel/modules/models/pipelined_model.hpp>
#include <sinew/parallel/offload/file_memory.hpp>
#include <sinew/parallel/offload/file_store.hpp>
#include <sinew/parallel/optim/optimizer.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <support/worlds.hpp>

#include "fakes/fake_blas.hpp"
#include "fakes/fake_kernels.hpp"
#include "support/fake_devices.hpp"

namespace sinew::parallel {
namespace {

using sinew::test::on_devices;
using sinew::test::on_threads;
using sinew::test::OnDevice;
using sinew::test::only;
using sinew::test::require;

constexpr std::int64_t kVocabulary = 7, kWidth = 12, kInner = 20, kLength = 6, kSequences = 8;
constexpr int kBlocks = 4, kSteps = 3;

struct Layout {
  int tp = 1, cp = 1, sharers = 1, dp = 1, pp = 1;
  bool sp = false;
  const char* row = "ddp";
  int micro_batches = 1;
  const char* schedule = "1f1b";
  int virtual_stages = 1;
  bool recomputes = false;
  int key_value_heads = 0;
  DType parameter = DType::F64;
  int experts = 0, ep = 1, etp = 1;  ///< experts in every second block
  const char* mixer = "attention";   ///< of every second block; the others have attention
  Recompute recompute = Recompute::None;
  bool offloads = false;            ///< activations to a scratch file
  bool shards = false;              ///< shards of parameters and the optimizer's state in scratch files
  int state_heads = 6, groups = 1;  ///< of the mixer "state space"
  int chunk = 64;                   ///< of it, not of the job that this one is compared with

  int ranks() const { return tp * cp * dp * pp; }
  std::string to_string() const {
    return fmt::format(
        "tp {} sp {} cp {} ({} share) dp {} pp {} {} {} micro-batches {} recompute {} kv {} experts {} ep {} etp {} "
        "policy {} offload {} shards {} {} ({} heads in {} groups, chunks of {})",
        tp, sp, cp, sharers, dp, pp, row, micro_batches, schedule, recomputes, key_value_heads, experts, ep, etp,
        static_cast<int>(recompute), offloads, shards, mixer, state_heads, groups, chunk);
  }
};

template <class M, class... Arguments>
ModulePtr<double> made(Arguments&&... arguments) {
  return std::make_unique<M>(std::forward<Arguments>(arguments)...);
}

/// A rank's part of the model and of the data.
struct Rank {
  /// where: the device on which the rank computes. null: the host.
  Rank(World& world, const Layout& l, const OnDevice* where)
      : layout(l),
        device(where == nullptr ? ComputeDevice{} : ComputeDevice{&where->runtime, where->stream}),
        blas(where == nullptr ? std::unique_ptr<Blas>(std::make_unique<HostBlas>())
                              : std::make_unique<fake::FakeBlas>(device)),
        mesh(world.communicator(),
             Factorisation({{"tp", l.tp}, {"cp0", l.sharers}, {"cp1", l.cp / l.sharers}, {"dp", l.dp}, {"pp", l.pp}}),
             {"tp", "cp0", "cp1", "dp", "pp", "cp0-cp1", "cp0-cp1-dp", "tp-pp"}),
        expert_mesh(
            world.communicator(),
            Factorisation({{"etp", l.etp}, {"ep", l.ep}, {"edp", l.tp * l.cp * l.dp / l.etp / l.ep}, {"pp", l.pp}}),
            {"etp", "ep", "edp", "pp", "ep-pp", "etp-pp", "etp-ep-pp"}),
        group{mesh.along("tp"), blas.get(), l.sp},
        context{mesh.along("cp0"), mesh.along("cp1")},
        positions(SequenceCut::zig_zag(kLength, l.cp)),
        sequences(kSequences / l.dp / l.micro_batches),
        rows(sequences * positions.tokens(context_rank())) {}

  int context_rank() const { return mesh.index("cp0-cp1"); }

  ModulePtr<double> mlp(const std::string& name) {
    ModulePtr<double> up = made<ColumnModule<double>>(
        group, LinearShape{.name = name + ".up", .rows = rows, .inputs = kWidth, .outputs = kInner},
        LinearOptions{.deviation = 0.2});
    const std::int64_t inner = up->out_elements();
    return sequence<double>(
        std::move(up), made<Pointwise<double>>(inner, gelu<double>()),
        made<RowModule<double>>(group,
                                LinearShape{.name = name + ".down", .rows = rows, .inputs = kInner, .outputs = kWidth},
                                LinearOptions{.deviation = 0.2}));
  }
  ModulePtr<double> experts(const std::string& name) {
    return made<ExpertsModule<double>>(
        group, ExpertRanks{.experts = &expert_mesh.along("ep"), .tensor = &expert_mesh.along("etp")},
        ExpertsShape{.name = name + ".experts",
                     .rows = rows,
                     .width = kWidth,
                     .inner = kInner,
                     .experts = layout.experts,
                     .top_k = 2,
                     .chunks = 2,
                     .deviation = 0.2});
  }
  ModulePtr<double> attention(const std::string& name) {
    return made<AttentionModule<double>>(group, context,
                                         AttentionShape{.name = name + ".attention",
                                                        .width = kWidth,
                                                        .heads = 6,
                                                        .key_value_heads = layout.key_value_heads,
                                                        .sequences = sequences,
                                                        .positions = positions},
                                         LinearOptions{.deviation = 0.3});
  }
  ModulePtr<double> mixer(const std::string& name, int number) {
    if (number % 2 == 0 || layout.mixer == std::string("attention")) return attention(name);
    const ScanOptions options{.deviation = 0.3, .out_deviation = 0.3};
    if (layout.mixer == std::string("scan"))
      return made<ScanModule<double>>(
          group, mesh.along("cp0-cp1"),
          ScanShape{
              .name = name + ".scan", .width = kWidth, .states = 3, .sequences = sequences, .positions = positions},
          options);
    return made<StateSpaceModule<double>>(group, mesh.along("cp0-cp1"),
                                          StateSpaceShape{.name = name + ".state_space",
                                                          .width = kWidth,
                                                          .head_width = 3,
                                                          .heads = layout.state_heads,
                                                          .groups = layout.groups,
                                                          .states = 2,
                                                          .chunk = layout.chunk,
                                                          .sequences = sequences,
                                                          .positions = positions},
                                          options);
  }
  ModulePtr<double> block(int number) {
    const std::string name = fmt::format("blocks.{}", number);
    const auto norm = [&](const char* which) {
      return made<LayerNormModule<double>>(group, LayerNormShape{.name = name + which, .rows = rows, .width = kWidth});
    };
    ModulePtr<double> all =
        sequence<double>(residual<double>(sequence<double>(norm(".norm1"), mixer(name, number))),
                         residual<double>(sequence<double>(
                             norm(".norm2"), layout.experts > 0 && number % 2 == 1 ? experts(name) : mlp(name))));
    return unit<double>(name, layout.recomputes ? recomputed<double>(std::move(all)) : std::move(all));
  }
  ModulePtr<double> embedding() {
    const TokenPlaces places(group, sequences, positions, context_rank());
    ModulePtr<double> table = made<EmbeddingModule<double>>(
        group, EmbeddingShape{.name = "tokens", .rows = rows, .vocabulary = kVocabulary, .width = kWidth}, 0.5);
    if (layout.mixer != std::string("attention")) return unit<double>("tokens", std::move(table));
    return unit<double>(
        "tokens",
        sequence<double>(std::move(table), made<PositionModule<double>>(group, "positions", places, kWidth, 0.2),
                         made<DropoutModule<double>>(places, kWidth, 7, "tokens", 0.03)));
  }
  ModulePtr<double> head() {
    return unit<double>(
        "head", sequence<double>(
                    made<LayerNormModule<double>>(group, LayerNormShape{.name = "norm", .rows = rows, .width = kWidth}),
                    made<ColumnModule<double>>(
                        group, LinearShape{.name = "head", .rows = rows, .inputs = kWidth, .outputs = kVocabulary},
                        LinearOptions{.deviation = 0.2}),
                    made<PredictionModule<double>>(
                        group, CrossEntropyShape{.name = "loss", .rows = rows, .vocabulary = kVocabulary})));
  }
  /// The modules of stages [first, last) of `stages`.
  ModulePtr<double> stage(int number, int stages) {
    std::vector<ModulePtr<double>> modules;
    if (number == 0) modules.push_back(embedding());
    for (int b = number * kBlocks / stages; b < (number + 1) * kBlocks / stages; ++b) modules.push_back(block(b));
    if (number + 1 == stages) modules.push_back(head());
    return std::make_unique<Sequence<double>>(std::move(modules));
  }

  /// A token of a sequence that all ranks know, and the one behind it as its target.
  void load(int micro_batch) {
    tokens.clear();
    targets.clear();
    first_sample = mesh.index("dp") * (kSequences / layout.dp) + micro_batch * sequences;
    for (std::int64_t s = 0; s < sequences; ++s) {
      const std::int64_t sequence = first_sample + s;
      for (const std::int64_t at : positions.positions(context_rank())) {
        const auto token = [&](std::int64_t i) { return (i * i + 3 * sequence + i * sequence) % kVocabulary; };
        tokens.push_back(token(at));
        targets.push_back(at + 1 == kLength ? -100 : token(at + 1));
      }
    }
  }
  MicroBatch batch() const { return {.tokens = tokens, .targets = targets, .step = 3, .first_sample = first_sample}; }
  ModelOptions options() {
    DataParallelOptions data{.gradients = ReduceOp::Sum, .device = device};
    if (layout.shards) {
      data.step.offload = Offload::ParametersAndOptimizer;
      data.shards = FileMemory(::testing::TempDir());
    }
    return {.row = data_row(layout.row, {"cp0-cp1-dp"}),
            .parameter = layout.parameter,
            .gradient = DType::F64,
            .spread = "pp",
            .data = data,
            .expert_mesh = &expert_mesh,
            .expert_row = data_row(layout.row, {"edp"}),
            .recomputation = {.everywhere = layout.recompute},
            .offload = {.store = layout.offloads ? std::make_shared<FileStore>(::testing::TempDir()) : nullptr,
                        .write_bytes = 4096,
                        .read_ahead_bytes = 8192}};
  }

  Layout layout;
  ComputeDevice device;
  std::unique_ptr<Blas> blas;
  Mesh mesh, expert_mesh;
  LayerGroup group;
  ContextGroup context;
  SequenceCut positions;
  std::int64_t sequences, rows;
  std::vector<std::int64_t> tokens, targets;
  std::int64_t first_sample = 0;
};

/// Experts' parameters are units of their own, which their copies shard; dense ones are sharded by all data-parallel
/// ranks. A rank has its part of its experts only.
void require_sharded_experts(const Layout& layout, const std::vector<DataParallel*>& parallel) {
  if (layout.experts == 0 || std::string(layout.row) != "zero3") return;
  require(parallel[0]->sharded_axis() == "cp0-cp1-dp", "the axis of dense parameters");
  for (std::size_t i = 1; i < parallel.size(); ++i) {
    require(parallel[i]->sharded_axis() == "edp", "the axis of experts' parameters");
    std::int64_t whole = 0, own = 0;
    for (const DataParameter& p : parallel[i]->parameters()) {
      whole += p.elements;
      require(p.unit.starts_with("blocks."), "experts belong to the unit of their block");
    }
    for (const OwnedPart& part : parallel[i]->owned_values()) own += part.last - part.first;
    const int copies = parallel[i]->mesh().size("edp");
    require(own <= whole / copies + 64 * std::ssize(parallel[i]->parameters()), "a rank has its part of its experts");
    require(parallel[i]->held().of(Purpose::Underway) == 0, "nothing is gathered between steps");
  }
}

/// Losses of all steps, and of an evaluation behind them.
std::vector<double> train(World& world, const Layout& layout, const OnDevice* where = nullptr) {
  Rank rank(world, layout, where);
  const auto allocate = [&](std::size_t bytes) { return world.allocate(bytes); };
  int step = 0;
  std::optional<Model<double>> model;
  std::optional<PipelinedModel<double>> pipelined;
  std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> data(
      static_cast<std::size_t>(layout.micro_batches));
  if (layout.pp == 1) {
    model.emplace(rank.mesh, rank.stage(0, 1), allocate, rank.options());
  } else {
    const PipelineSchedule schedule =
        with_messages(make_schedule(layout.schedule, layout.pp, layout.micro_batches, layout.virtual_stages));
    std::vector<ModulePtr<double>> stages;
    for (int s = 0; s < schedule.stages(); ++s) {
      if (schedule.rank_of[static_cast<std::size_t>(s)] == rank.mesh.index("pp"))
        stages.push_back(rank.stage(s, schedule.stages()));
    }
    const auto batch = [&](std::int32_t m) {
      auto& [tokens, targets] = data[static_cast<std::size_t>(m)];
      rank.load(m);
      tokens = rank.tokens;
      targets = rank.targets;
      return MicroBatch{.tokens = tokens, .targets = targets, .step = 3, .first_sample = rank.first_sample};
    };
    pipelined.emplace(rank.mesh, CallGroup(rank.mesh.along("pp")), schedule, std::move(stages),
                      PipelineEnds<double>{.batch = batch}, allocate, rank.options());
  }
  std::vector<DataParallel*> parallel{model ? &model->data() : &pipelined->data()};
  if (model && model->has_experts()) parallel.push_back(&model->experts());
  if (pipelined && pipelined->has_experts()) parallel.push_back(&pipelined->experts());
  require_sharded_experts(layout, parallel);
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (DataParallel* data : parallel)
    optimizers.push_back(std::make_unique<Optimizer>(data->memory(), SgdOptions{.rate = 0.5}));
  const auto all = [&](const TokenLoss& loss) {
    return total(rank.mesh.along("cp0-cp1-dp"),
                 total(rank.mesh.along("pp"), WeightedLoss{loss.sum, static_cast<double>(loss.tokens)}));
  };
  const auto passes = [&](bool trains) {
    TokenLoss loss;
    for (int m = 0; m < layout.micro_batches; ++m) {
      rank.load(m);
      std::vector<DataParallel::Scope> only_added;
      if (trains && m + 1 < layout.micro_batches) {
        for (DataParallel* data : parallel) only_added.push_back(data->no_sync());
      }
      const TokenLoss of_pass =
          trains ? model->forward(rank.batch(), nullptr, nullptr) : model->evaluate(rank.batch(), nullptr, nullptr);
      loss.sum += of_pass.sum, loss.tokens += of_pass.tokens;
      if (!trains) continue;
      model->backward(nullptr, nullptr);
      if (m + 1 == layout.micro_batches) continue;
      for (DataParallel* data : parallel) require(data->finish_backward().empty(), "parts within no_sync()");
    }
    return loss;
  };
  std::vector<double> losses;
  for (; step < kSteps; ++step) {
    const WeightedLoss loss = all(model ? passes(true) : pipelined->step());
    losses.push_back(loss.mean());
    for (std::size_t i = 0; i < parallel.size(); ++i) {
      optimizers[i]->update(parallel[i]->finish_backward(), loss.scale());
      parallel[i]->updated();
    }
  }
  std::vector<DataParallel::Scope> scopes;
  for (DataParallel* data : parallel) scopes.push_back(data->forward_only());
  losses.push_back(all(model ? passes(false) : pipelined->evaluate()).mean());
  return losses;
}

/// The losses of one rank on the host, which has the same model and all data.
std::vector<double> losses_alone(const Layout& layout) {
  std::vector<double> expected;
  Layout alone{.key_value_heads = layout.key_value_heads};
  alone.parameter = layout.parameter;
  alone.experts = layout.experts;
  alone.mixer = layout.mixer;
  alone.state_heads = layout.state_heads;
  alone.groups = layout.groups;
  on_threads(1, only("inproc"), [&](World& world) { expected = train(world, alone); });
  EXPECT_LT(expected.back(), expected.front() - 0.1) << "it does not learn";
  return expected;
}

void require_near(const Layout& layout, const std::vector<double>& found, const std::vector<double>& expected,
                  double tolerance) {
  for (std::size_t i = 0; i < found.size(); ++i)
    require(std::abs(found[i] - expected[i]) <= tolerance * std::abs(expected[i]),
            fmt::format("{}: loss {} is {:.15f} instead of {:.15f}", layout.to_string(), i, found[i], expected[i]));
}

void compare(const Layout& layout, double tolerance = 1e-12) {
  const std::vector<double> expected = losses_alone(layout);
  on_threads(layout.ranks(), only("inproc"),
             [&](World& world) { require_near(layout, train(world, layout), expected, tolerance); });
}

/// On fake devices, whose memory faults where the host touches it.
void compare_on_devices(const Layout& layout, double tolerance = 1e-12) {
  const std::vector<double> expected = losses_alone(layout);
  on_devices(layout.ranks(), "inproc", [&](World& world, const OnDevice& where) {
    require_near(layout, train(world, layout, &where), expected, tolerance);
  });
}

TEST(ModuleLayouts, OfTensorAndSequenceParallelism) {
  for (const int tp : {2, 3, 4}) {
    for (const bool sp : {false, true}) {
      for (const int shared : {0, 2}) compare({.tp = tp, .sp = sp, .key_value_heads = shared});
    }
  }
}

TEST(ModuleLayouts, OnDevices) {
  fake::add_parallel_kernels();
  fake::pause_after(64);
  compare_on_devices({});
  for (const Recompute recompute : {Recompute::Selective, Recompute::Full})
    compare_on_devices({.recompute = recompute});
  for (const bool sp : {false, true}) compare_on_devices({.tp = 3, .sp = sp, .key_value_heads = 2});
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
    compare_on_devices({.dp = 2, .row = row, .micro_batches = 2, .recomputes = true});
    compare_on_devices({.tp = 2, .dp = 2, .sp = true, .row = row});
  }
  compare_on_devices({.tp = 2, .cp = 2, .dp = 2, .sp = true, .row = "zero3"});
  compare_on_devices({.cp = 4, .sharers = 2, .key_value_heads = 3});
}

TEST(ModuleLayouts, OfContextParallelism) {
  compare({.cp = 2});
  compare({.cp = 4, .sharers = 2, .key_value_heads = 3});
  compare({.cp = 3, .sharers = 3});
  compare({.tp = 2, .cp = 2, .sp = true});
}

TEST(ModuleLayouts, OfDataParallelism) {
  for (const char* row : {"ddp", "zero1", "zero2", "zero3"}) {
    compare({.dp = 2, .row = row});
    compare({.dp = 4, .row = row, .micro_batches = 2, .recomputes = true});
    compare({.tp = 2, .dp = 2, .sp = true, .row = row});
  }
}

TEST(ModuleLayouts, OfPipelines) {
  for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
    compare({.pp = 2, .micro_batches = 4, .schedule = schedule});
    compare({.pp = 4, .row = "zero3", .micro_batches = 8, .schedule = schedule});
  }
  compare({.pp = 2, .micro_batches = 4, .schedule = "interleaved", .virtual_stages = 2});
  compare({.pp = 2, .micro_batches = 4, .schedule = "looped-bfs", .virtual_stages = 2, .recomputes = true});
}

TEST(ModuleLayouts, OfExpertParallelism) {
  compare({.dp = 2, .experts = 4, .ep = 2});
  compare({.dp = 4, .row = "zero3", .micro_batches = 2, .recomputes = true, .experts = 5, .ep = 2});
  compare({.tp = 2, .dp = 2, .sp = true, .row = "zero1", .experts = 3, .ep = 2, .etp = 2});
  compare({.cp = 2, .dp = 2, .experts = 4, .ep = 4});
  compare({.dp = 2, .pp = 2, .row = "zero3", .micro_batches = 2, .schedule = "zb-h1", .experts = 4, .ep = 2});
}

TEST(ModuleLayouts, OfScans) {
  for (const char* mixer : {"scan", "state space"}) {
    for (const bool sp : {false, true}) {
      for (const int tp : {2, 3, 5}) compare({.tp = tp, .sp = sp, .key_value_heads = 1, .mixer = mixer});
      compare({.tp = 2, .cp = 2, .sp = sp, .mixer = mixer});
    }
    compare({.cp = 2, .mixer = mixer});
    compare({.cp = 4, .sharers = 2, .mixer = mixer});
    compare({.tp = 2, .dp = 2, .sp = true, .row = "zero3", .micro_batches = 2, .recomputes = true, .mixer = mixer});
    compare({.cp = 2, .pp = 2, .micro_batches = 4, .schedule = "zb-h1", .mixer = mixer});
  }
}

TEST(ModuleLayouts, OfRecomputationAndOffload) {
  for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
    compare({.recompute = recompute, .offloads = true});
    compare({.tp = 2, .dp = 2, .sp = true, .row = "zero3", .micro_batches = 2, .recompute = recompute});
    compare({.pp = 2, .micro_batches = 4, .schedule = "zb-h1", .recompute = recompute, .offloads = true});
    compare({.pp = 2, .row = "zero3", .micro_batches = 4, .schedule = "gpipe", .recompute = recompute});
  }
  for (const char* schedule : {"gpipe", "interleaved", "looped-bfs"})
    compare({.pp = 2,
             .micro_batches = 4,
             .schedule = schedule,
             .virtual_stages = schedule[0] == 'g' ? 1 : 2,
             .offloads = true});
  compare({.dp = 2, .row = "zero3", .experts = 4, .ep = 2, .recompute = Recompute::Selective, .offloads = true});
  compare({.tp = 2, .dp = 2, .pp = 2, .sp = true, .row = "zero3", .micro_batches = 2, .offloads = true});
}

TEST(ModuleLayouts, OfShardsInFiles) {
  compare({.dp = 2, .row = "zero3", .shards = true});
  compare({.tp = 2, .dp = 2, .sp = true, .row = "zero3", .micro_batches = 2, .offloads = true, .shards = true});
  compare({.dp = 2, .pp = 2, .row = "zero3", .micro_batches = 4, .shards = true});
}

TEST(ModuleLayouts, OfShardedExperts) {
  compare({.dp = 4, .row = "zero3", .experts = 4, .ep = 2});
  compare({.tp = 2, .dp = 4, .sp = true, .row = "zero3", .experts = 4, .ep = 2, .etp = 2});
  compare({.dp = 4, .pp = 2, .row = "zero3", .micro_batches = 2, .experts = 4, .ep = 2});
  compare({.tp = 2, .dp = 2, .pp = 2, .sp = true, .row = "zero3", .micro_batches = 2, .experts = 4, .ep = 2});
  compare({.dp = 4,
           .pp = 2,
           .row = "zero2",
           .micro_batches = 2,
           .schedule = "interleaved",
           .virtual_stages = 2,
           .experts = 4,
           .ep = 2});
}

/// Heads that are no multiple of the ranks, groups that fall on one rank or on several, chunks of any length.
TEST(ModuleLayouts, OfHeadsAndGroupsOfStateSpaces) {
  for (const bool sp : {false, true}) {
    for (const int tp : {2, 3}) {
      for (const auto& [heads, groups] : {std::pair(5, 1), {6, 2}, {6, 3}, {6, 6}, {5, 5}, {7, 1}}) {
        compare({.tp = tp, .sp = sp, .mixer = "state space", .state_heads = heads, .groups = groups, .chunk = 2});
      }
      compare({.tp = tp, .cp = 2, .sp = sp, .mixer = "state space", .groups = 3, .chunk = 1});
    }
  }
  compare({.cp = 4, .mixer = "state space", .state_heads = 5, .chunk = 5});
  compare({.tp = 2, .dp = 2, .row = "zero3", .mixer = "state space", .state_heads = 9, .groups = 3});
}

TEST(ModuleLayouts, OfAllAxesTogether) {
  compare({.tp = 2, .dp = 2, .pp = 2, .sp = true, .row = "zero3", .micro_batches = 2, .schedule = "zb-h1"});
  compare({.tp = 2, .cp = 2, .pp = 2, .sp = true, .row = "zero1", .micro_batches = 2});
  compare({.cp = 2, .dp = 2, .pp = 2, .row = "zero3", .micro_batches = 2, .recomputes = true, .key_value_heads = 3});
}

}  // namespace
}  // namespace sinew::parallel

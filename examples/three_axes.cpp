// An engine of one's own on three axes: layers cut over tp, blocks in the stages of a pipeline, copies along dp. It
// trains, saves, goes on from what it saved under any other layout, and evaluates.
// Try: sinew-run -n 8 build/release/bin/three_axes zero1 2 2 40 /tmp/numbers      (ROW TP PP STEPS FOLDER)
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <sinew/parallel/checkpoint/save.hpp>
#include <sinew/parallel/checkpoint/training_parts.hpp>
#include <sinew/parallel/common/keyed_random.hpp>
#include <sinew/parallel/compute/host_blas.hpp>
#include <sinew/parallel/data_parallel/gradient_norm.hpp>
#include <sinew/parallel/data_parallel/weighted_loss.hpp>
#include <sinew/parallel/mesh/job_mesh.hpp>
#include <sinew/parallel/pipeline/generators/generators.hpp>
#include <sinew/parallel/pipeline/passes/passes.hpp>
#include <sinew/parallel/pipeline/pipeline_runner.hpp>
#include <sinew/parallel/sharded_stages/unit_order_of.hpp>
#include <sinew/parallel/tensor/column_linear.hpp>
#include <sinew/parallel/tensor/row_linear.hpp>

namespace sp = sinew::parallel;
using Values = std::vector<double>;

constexpr int kBlocks = 4, kWidth = 16, kHidden = 24, kBatch = 32, kMicroBatches = 2;

// y = x + down(tanh(up(x))), which the ranks of tp share.
struct Block {
  sp::ColumnLinear<double> up;
  sp::RowLinear<double> down;
  std::int32_t first = 0;                // its parameters: up.weight, up.bias, down.weight, down.bias
  std::map<int, Values> inputs, hidden;  // by micro-batch
  Block(sinew::Communicator& tensor, sp::Blas& blas, const std::string& name, int rows)
      : up(tensor, "tp", blas, {.name = name + ".up", .rows = rows, .inputs = kWidth, .outputs = kHidden}),
        down(tensor, "tp", blas, {.name = name + ".down", .rows = rows, .inputs = kHidden, .outputs = kWidth}) {}
  void forward(sp::DataParallel& data, int m, Values& x) {
    const auto value = [&](int p) { return data.parameter<double>(first + p).data(); };
    Values h(x.size() / kWidth * static_cast<std::size_t>(up.outputs())), y(x.size());
    up.forward(x.data(), value(0), value(1), nullptr, h.data());
    for (double& each : h) each = std::tanh(each);
    down.forward(h.data(), value(2), value(3), nullptr, y.data());
    inputs[m] = x;
    hidden[m] = std::move(h);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  void backward(sp::DataParallel& data, int m, Values& dy) {
    const auto value = [&](int p) { return data.parameter<double>(first + p).data(); };
    const auto gradient = [&](int p) { return data.gradient<double>(first + p).data(); };
    const Values &x = inputs[m], &h = hidden[m];
    Values dh(h.size()), dx(dy.size());
    down.input_gradient(dy.data(), value(2), nullptr, dh.data());
    down.weight_gradient(dy.data(), h.data(), 1, gradient(2));
    down.bias_gradient(dy.data(), 1, gradient(3));
    for (std::size_t i = 0; i < h.size(); ++i) dh[i] *= 1 - h[i] * h[i];
    auto sum = up.input_gradient(dh.data(), value(0), nullptr, dx.data());
    up.weight_gradient(x.data(), dh.data(), 1, gradient(0));  // while dx is summed
    up.bias_gradient(dh.data(), 1, gradient(1));
    sum.get();
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] += dx[i];
  }
};

// The blocks of this rank's stage. It learns to turn each sample by one place.
struct Engine final : sp::StageEngine {
  std::vector<std::unique_ptr<Block>> blocks;
  std::unique_ptr<sp::DataParallel> data;
  int stage = 0, stages = 1, rows = 0;
  std::int64_t first_sample = 0;  // of this rank's part of the batch
  std::map<int, Values> off;      // by micro-batch: the output, in the last stage less what it should be
  sp::WeightedLoss loss;
  Values samples(int m, int turned) const {
    const sp::KeyedRandom random(1, "samples");
    Values x(static_cast<std::size_t>(rows) * kWidth);
    for (int i = 0; i < rows * kWidth; ++i) {
      const std::int64_t number = (first_sample + m * rows + i / kWidth) * kWidth + (i + turned) % kWidth;
      x[static_cast<std::size_t>(i)] = random.uniform(static_cast<std::uint64_t>(number)) - 0.5;
    }
    return x;
  }
  static std::byte* bytes(Values& v) { return reinterpret_cast<std::byte*>(v.data()); }
  std::size_t output_bytes(std::int32_t s) const override {
    return s + 1 == stages ? 0 : sizeof(double) * kWidth * static_cast<std::size_t>(rows);
  }
  std::size_t forward(std::int32_t, std::int32_t m, sinew::ConstBuffer in, sinew::Buffer out) override {
    Values& x = off[m] = samples(m, 0);
    std::copy_n(in.data, in.bytes, bytes(x));  // from the stage before; the first stage gets nothing
    for (auto& block : blocks) block->forward(*data, m, x);
    std::copy_n(bytes(x), out.bytes, out.data);
    const Values target = stage + 1 < stages ? Values() : samples(m, 1);
    for (std::size_t i = 0; i < target.size(); ++i) x[i] -= target[i], loss += {x[i] * x[i], 1};
    return out.bytes;
  }
  std::size_t backward(std::int32_t, std::int32_t m, sinew::ConstBuffer dout, sinew::Buffer din) override {
    Values& dy = off[m];  // in the last stage, half the gradient of the sum of squares
    std::copy_n(dout.data, dout.bytes, bytes(dy));
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) (*block)->backward(*data, m, dy);
    std::copy_n(bytes(dy), din.bytes, din.data);
    return din.bytes;
  }
  // The schedule says when the stage, which is one unit, is gathered, freed and summed.
  void unshard(std::int32_t) override { data->unshard(0); }
  void reshard(std::int32_t) override { data->reshard(0); }
  void reduce(std::int32_t) override { data->reduce(0); }
};

int main(int argc, char** argv) try {
  if (argc < 5) throw std::invalid_argument("expected ROW TP PP STEPS [FOLDER], with sinew-run -n RANKS before it");
  const int tp = std::stoi(argv[2]), pp = std::stoi(argv[3]), steps = std::stoi(argv[4]);
  const std::string folder = argc > 5 ? argv[5] : "";
  auto world = sinew::World::from_environment();
  sp::JobMesh job(world.communicator(), {.tp = tp, .pp = pp});
  sp::Mesh& mesh = job.dense();
  const int dp = mesh.size("dp");
  if (kBlocks % pp != 0 || kBatch % (dp * kMicroBatches) != 0)
    throw std::invalid_argument("expected PP and dp of 1, 2 or 4");
  sp::HostBlas blas;
  Engine engine;
  engine.stage = mesh.index("pp"), engine.stages = pp, engine.rows = kBatch / dp / kMicroBatches;
  std::vector<sp::DataParameter> parameters;
  const sp::DataParameter like{.dtype = sinew::DType::F64, .unit = "stage", .spread = "pp"};
  for (int b = engine.stage * kBlocks / pp; b < (engine.stage + 1) * kBlocks / pp; ++b) {
    auto& block =
        *engine.blocks.emplace_back(std::make_unique<Block>(mesh.along("tp"), blas, std::to_string(b), engine.rows));
    block.first = static_cast<std::int32_t>(parameters.size());
    const auto up = block.up.parameters(like), down = block.down.parameters(like);
    parameters.insert(parameters.end(), {up.weight, up.bias, down.weight, down.bias});
  }
  const auto initial = [](const sp::InitialPart& part) {
    const sp::KeyedRandom random(7, part.parameter.path);
    part.fill([&](std::int64_t k) { return 0.1 * random.normal(static_cast<std::uint64_t>(k)); });
  };
  const sp::PipelineSchedule schedule =
      sp::with_sharding(sp::with_messages(sp::one_forward_one_backward(pp, kMicroBatches)));
  sp::DataParallelOptions options{.gradients = sinew::ReduceOp::Sum};  // the optimizer gets the mean of all samples
  options.step.order = sp::unit_order_of(schedule, engine.stage, {{engine.stage, {like.unit}}});
  engine.data = std::make_unique<sp::DataParallel>(
      mesh, parameters, initial, sp::data_row(argv[1], {"dp"}), [&](auto bytes) { return world.allocate(bytes); },
      options);
  sp::DataParallel& data = *engine.data;
  sp::Optimizer optimizer(data.memory(), sp::AdamOptions{.rate = 0.01});
  sp::PipelineRunner training(mesh.along("pp"), schedule, engine, {&data.protocol()});
  sp::PipelineRunner evaluation(mesh.along("pp"), sp::forward_only(schedule), engine, {&data.protocol()});
  const auto begin_batch = [&](std::int64_t batch) {
    engine.first_sample = batch * kBatch + mesh.index("dp") * (kBatch / dp), engine.loss = {};
  };
  const auto batch_loss = [&] { return sp::total(mesh.along("dp"), sp::total(mesh.along("pp"), engine.loss)); };
  int step = 0;
  if (const auto saved = folder.empty() ? std::nullopt : sp::latest_step(world.communicator(), folder)) {
    const auto parts = sp::parts_to_load(data, optimizer);
    const auto loaded = sp::load_checkpoint(world.communicator(), sp::step_folder(folder, *saved), parts).metadata;
    step = static_cast<int>(loaded.step);
    optimizer.restore_steps(loaded.optimizer_steps);
  }
  for (; step < steps; ++step) {
    begin_batch(step);
    training.run();
    const auto owned = data.finish_backward();
    const sp::WeightedLoss loss = batch_loss();
    const double norm = sp::gradient_norm(data, owned) * loss.scale();
    optimizer.update(owned, loss.scale() * sp::clip_scale(norm, 1.0)), data.updated();
    if (world.rank() == 0 && step % 10 == 0) std::printf("step %d loss %.12f norm %.12f\n", step, loss.mean(), norm);
  }
  if (!folder.empty())
    sp::save_checkpoint(world.communicator(), folder, sp::parts_to_save(data, optimizer),
                        {.step = step, .optimizer_steps = optimizer.steps()});
  const auto scope = data.forward_only();
  begin_batch(1'000'000);  // samples that it has not seen
  evaluation.run();
  data.finish_forward();
  const double loss = batch_loss().mean();
  if (world.rank() == 0) std::printf("evaluation after step %d: loss %.12f\n", step, loss);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "three_axes: %s\n", e.what());
  return 1;
}

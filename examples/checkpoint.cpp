// State that survives the job, and the number of its ranks: a row of numbers that all ranks share, saved every ten
// steps while the next ones run. Start it again, with more ranks or fewer: it goes on where the last checkpoint was.
// Try: sinew-run -n 4 build/release/bin/checkpoint_example /tmp/numbers 25; sinew-run -n 3 ... /tmp/numbers 40
#include <cstdio>
#include <string>
#include <vector>

#include <sinew/collectives/world.hpp>
#include <sinew/parallel/checkpoint/async_checkpointer.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/load.hpp>

#include "usage.hpp"

namespace sp = sinew::parallel;

int main(int argc, char** argv) try {
  if (example::is_asked_for_usage(argc, argv, "checkpoint_example FOLDER STEPS   with sinew-run -n RANKS before it"))
    return 0;
  if (argc != 3) throw sinew::Error(sinew::Code::InvalidArgument, "expected FOLDER STEPS");
  const std::string folder = argv[1];
  const int steps = std::stoi(argv[2]);
  auto world = sinew::World::from_environment();

  // Each rank holds its share of a million numbers, and the checkpoint knows them as one item.
  const sp::CheckpointItem item{"numbers", sinew::DType::F64, {1000, 1000}};
  const std::int64_t first = item.elements() * world.rank() / world.size();
  const std::int64_t last = item.elements() * (world.rank() + 1) / world.size();
  std::vector<double> mine(static_cast<std::size_t>(last - first));
  const std::vector<sp::CheckpointPart> parts{
      {item,
       sp::range_of(item, first, last),
       {reinterpret_cast<std::byte*>(mine.data()), mine.size() * sizeof(double)}}};

  int step = 0;
  if (const auto latest = sp::latest_step(world.communicator(), folder)) {  // the same on all ranks
    const sp::Loaded loaded = sp::load_checkpoint(world.communicator(), sp::step_folder(folder, *latest), parts);
    step = static_cast<int>(loaded.metadata.step);
    if (world.rank() == 0) std::printf("step %d: from a checkpoint of %s\n", step, loaded.metadata.layout.c_str());
  }
  sp::AsyncCheckpointer checkpointer(world.communicator(), folder);
  while (step < steps) {
    ++step;
    checkpointer.finish_copy();  // of a save, before the numbers change
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += static_cast<double>((first + static_cast<int>(i)) % 7);
    if (step % 10 == 0) checkpointer.save(parts, {.step = step, .layout = std::to_string(world.size()) + " ranks"});
  }
  checkpointer.finish();

  double sum = 0;
  for (const double x : mine) sum += x;
  world.communicator().all_reduce(std::span(&sum, 1)).get();
  if (world.rank() == 0) std::printf("step %d: sum %.0f\n", step, sum);
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "checkpoint_example: %s\n", e.what());
  return e.code() == sinew::Code::InvalidArgument ? 2 : 1;
}

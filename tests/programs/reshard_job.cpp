// A job that gives weights to another job, or that takes them. Each job is started by itself, with sinew-run.
// reshard_job trainer|inference TRAINERS INFERENCE_RANKS STORE SECRET_FILE MEGABYTES
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <sinew/collectives/launch/members.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/net/secret.hpp>
#include <sinew/parallel/reshard/placed_part.hpp>
#include <sinew/parallel/reshard/reshard.hpp>

namespace {

namespace sp = sinew::parallel;

sinew::Members members_of(const std::vector<std::string>& arguments, int rank) {
  sinew::Members members{
      "weights", {}, arguments[0] + " " + std::to_string(rank), arguments[3], sinew::secret_from_file(arguments[4])};
  for (int r = 0; r < std::stoi(arguments[1]); ++r) members.list.push_back("trainer " + std::to_string(r));
  for (int r = 0; r < std::stoi(arguments[2]); ++r) members.list.push_back("inference " + std::to_string(r));
  return members;
}

float value_of(std::int64_t number, int step) { return static_cast<float>((number + step) % 65521); }

void run(const std::vector<std::string>& arguments) {
  constexpr int kSteps = 4;
  const bool trains = arguments[0] == "trainer";
  auto job = sinew::World::from_environment();
  const sinew::Members members = members_of(arguments, job.rank());
  std::unique_ptr<sinew::MemberStore> store;
  if (trains && job.rank() == 0) {
    const auto port = static_cast<std::uint16_t>(std::stoi(members.store.substr(members.store.rfind(':') + 1)));
    store =
        std::make_unique<sinew::MemberStore>(members.name, static_cast<int>(members.list.size()), members.secret, port);
  }
  sinew::WorldOptions options;
  options.secret = members.secret;
  auto both = sinew::World::create(sinew::exchange_of_members(members), options);

  // Rows of the trainer's ranks become columns of the inference ranks.
  const sp::Factorisation mesh({{"tp", job.size()}});
  const std::int64_t rows = std::stoll(arguments[5]) * 250;
  sp::Tensor weight{{"w", sinew::DType::F32, {rows, 1000}, sp::Placements({{"tp", sp::Shard{trains ? 0 : 1, {}}}})},
                    {}};
  std::vector<float> values(sp::local_bytes(weight, mesh, job.rank()) / sizeof(float));
  weight.buffer = {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
  const std::vector<sp::CheckpointPart> mine{sp::placed_part(weight, mesh, job.rank())}, none;
  sp::Resharder resharder(both.communicator(), trains ? mine : none, trains ? none : mine);

  const sp::Box box = sp::local_box(weight, mesh, job.rank());
  double best = std::numeric_limits<double>::infinity();
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t k = 0; trains && k < values.size(); ++k)
      values[k] = value_of(sp::number_in_whole(weight.shape, box, static_cast<std::int64_t>(k)), step);
    both.communicator().barrier().get();
    const auto begin = std::chrono::steady_clock::now();
    resharder.run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (values[k] != value_of(sp::number_in_whole(weight.shape, box, static_cast<std::int64_t>(k)), step))
        throw sinew::Error(sinew::Code::Mismatch, "wrong weights in step " + std::to_string(step));
    }
  }
  if (!trains && job.rank() == 0)
    std::printf("%.4f GB/s\n%s", static_cast<double>(weight.elements()) * sizeof(float) / best / 1e9,
                resharder.plan().explain().c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 6) throw sinew::Error(sinew::Code::InvalidArgument, "expected six arguments");
  run(arguments);
  return 0;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "reshard_job: %s\n", e.what());
  return 1;
}

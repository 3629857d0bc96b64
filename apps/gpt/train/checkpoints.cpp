#include "checkpoints.hpp"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include <sinew/collectives/element_range.hpp>
#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/host_copies.hpp>
#include <sinew/parallel/checkpoint/load.hpp>

namespace gpt {

Checkpoints::Checkpoints(sinew::World& world, const Options& options, Trainer& trainer)
    : world_(&world), options_(&options), trainer_(&trainer) {
  if (options.buddy_copies > 0) copies_.emplace(sp::CallGroup(world.communicator()));
}

template <class PartsOf>
std::vector<sp::CheckpointPart> Checkpoints::parts(const PartsOf& parts_of) {
  std::vector<sp::CheckpointPart> all;
  for (Trainer::Held& held : trainer_->held()) {
    for (sp::CheckpointPart& part : parts_of(*held.data, held.optimizer)) all.push_back(std::move(part));
  }
  sp::RouterStates& routers = trainer_->routers();
  for (int layer = 0; routers.has_biases() && layer < routers.layers(); ++layer) {
    const std::span<double> bias = routers.bias(layer);
    const sp::CheckpointItem item{fmt::format("blocks.{}.router.bias", options_->shape.block_with_experts(layer)),
                                  sinew::DType::F64,
                                  {static_cast<std::int64_t>(bias.size())}};
    all.push_back({item, sp::whole_of(item), sinew::buffer_of(bias)});
  }
  return all;
}

std::int64_t Checkpoints::resume() {
  const std::string& folder = options_->resume;
  if (folder.empty()) return 0;
  const std::optional<std::int64_t> newest = sp::latest_step(world_->communicator(), folder);
  if (!newest) {
    if (folder == options_->save) {
      trainer_->restore_steps(0, 0);
      return 0;
    }
    throw sinew::Error(
        sinew::Code::InvalidArgument,
        fmt::format("resume: there is no checkpoint in '{}'; expected a directory that holds one. To start "
                    "without a checkpoint, leave --resume out, or give --save the same directory",
                    folder));
  }
  return load(folder, *newest);
}

std::int64_t Checkpoints::load(const std::string& folder, std::int64_t step) {
  const std::string of_step = sp::step_folder(folder, step);
  sp::HostCopies wanted(trainer_->device(), parts(sp::parts_to_load));
  const sp::Loaded loaded = sp::load_checkpoint(world_->communicator(), of_step, wanted.parts());
  wanted.send_up();
  if (loaded.metadata.seed != options_->job.seed)
    throw sinew::Error(
        sinew::Code::InvalidArgument,
        fmt::format("resume: '{}' is of seed {}, asked for is {}: other data would follow; expected --seed {}", of_step,
                    loaded.metadata.seed, options_->job.seed, loaded.metadata.seed));
  const std::string& configuration = loaded.metadata.configuration;
  const std::string shape = configuration.substr(0, configuration.find('\n'));
  if (shape != to_string(options_->shape))
    throw sinew::Error(sinew::Code::InvalidArgument,
                       fmt::format("resume: '{}' is of a model of {}; asked for is one of {}", of_step, shape,
                                   to_string(options_->shape)));
  trainer_->restore_steps(loaded.metadata.step, loaded.metadata.optimizer_steps, loaded.metadata.loss_scale);
  return loaded.metadata.step;
}

sp::HeldState Checkpoints::own(std::vector<sp::CheckpointPart>& parts) {
  parts = this->parts(sp::parts_to_carry);
  return {trainer_->steps_done(), trainer_->held().front().optimizer.steps(), parts, trainer_->scaling()};
}

std::vector<sp::HeldState> Checkpoints::held(Checkpoints* of, std::vector<sp::CheckpointPart>& parts) {
  if (of == nullptr) return {};
  std::vector<sp::HeldState> states = of->copies_ ? of->copies_->held() : std::vector<sp::HeldState>{};
  states.push_back(of->own(parts));
  return states;
}

void Checkpoints::copy_to_buddies() {
  if (!copies_) return;
  std::vector<sp::CheckpointPart> parts;
  copies_->copy(own(parts));
  copies_->finish();
}

std::vector<int> Checkpoints::ranks_to_leave(sinew::World& left, Checkpoints* before, int leaving) {
  std::vector<sp::CheckpointPart> parts;
  return sp::ranks_to_leave(left.communicator(), held(before, parts), leaving);
}

bool Checkpoints::hand_over(sinew::World& all, Checkpoints* before, Checkpoints* next) {
  std::vector<sp::CheckpointPart> parts;
  const std::vector<sp::HeldState> states = held(before, parts);
  const std::vector<sp::CheckpointPart> wanted =
      next != nullptr ? next->parts(sp::parts_to_load) : std::vector<sp::CheckpointPart>{};
  const auto carried = sp::carry_over(all.communicator(), states, wanted);
  if (carried && next != nullptr)
    next->trainer_->restore_steps(carried->step, carried->optimizer_steps, carried->loss_scale);
  return carried.has_value();
}

std::int64_t Checkpoints::recover(Checkpoints* before) {
  if (hand_over(*world_, before, this)) return trainer_->steps_done();
  if (options_->save.empty() && options_->resume.empty())
    throw sinew::Error(sinew::Code::InvalidArgument,
                       "elastic: what is left of the ranks holds no whole step, and there are no checkpoints; expected "
                       "--save DIR");
  return recover_from_files();
}

std::int64_t Checkpoints::recover_from_files() {
  if (!options_->save.empty()) {
    if (const auto newest = sp::latest_step(world_->communicator(), options_->save))
      return load(options_->save, *newest);
  }
  return resume();
}

void Checkpoints::after(std::int64_t step) {
  const std::int64_t done = step + 1;
  if (copies_ && done % options_->buddy_copies == 0 && done < options_->steps) {
    std::vector<sp::CheckpointPart> parts;
    copies_->copy(own(parts));
  }
  if (options_->save.empty()) return;
  if (saves_) saves_->poll();
  if (done % options_->save_every == 0 || done == options_->steps) begin(done);
}

void Checkpoints::save(std::int64_t step) {
  if (saving_ != step + 1) begin(step + 1);
}

bool Checkpoints::finish() {
  if (saves_) or_complain([&] { saves_->finish(); });
  return !saves_ || saves_->in_place() == saving_;
}

void Checkpoints::begin(std::int64_t steps_done) {
  const sp::JobConfig& config = options_->job;
  const sp::CheckpointMetadata metadata{
      .step = steps_done,
      .optimizer_steps = trainer_->held().front().optimizer.steps(),
      .seed = config.seed,
      .data_position = steps_done * config.global_batch,
      .layout = fmt::format("{}, {}", trainer_->job().mesh().shape().to_string(), sp::row_name(config)),
      .configuration = to_string(options_->shape) + "\n" + sp::to_string(config),
      .loss_scale = trainer_->scaling()};
  finish();
  if (!saves_) {
    saves_.emplace(sp::CallGroup(world_->communicator()), options_->save);
    for (Trainer::Held& held : trainer_->held()) saves_->follow(*held.data);
  }
  saving_ = steps_done;
  sp::HostCopies here(trainer_->device(), parts(sp::parts_to_save));
  here.bring_down();
  or_complain([&] { saves_->save(here.parts(), metadata); });
}

template <class Call>
void Checkpoints::or_complain(const Call& call) {
  try {
    call();
  } catch (const sinew::Error& e) {
    if (e.code() != sinew::Code::System && e.code() != sinew::Code::Unavailable) throw;
    if (world_->rank() == 0)
      fmt::print(stderr, "gpt: there is no checkpoint of {} steps, training goes on: {}\n", saving_, e.what());
  }
}

}  // namespace gpt

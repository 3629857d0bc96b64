#include "joined_world.hpp"

#include <unistd.h>

#include <sinew/core/base/process_lock.hpp>

namespace sinew::torch_backend {
namespace {

/// Never destroyed: threads may still use it while the process ends.
struct Registry {
  std::vector<std::weak_ptr<JoinedWorld>> worlds;

  static Registry& get() {
    static auto* const kRegistry = new Registry;
    return *kRegistry;
  }
};

}  // namespace

JoinedWorld::JoinedWorld(const WorldId& id, World world, int global_rank)
    : id_(id), world_(std::move(world)), global_rank_(global_rank), process_(::getpid()) {}

std::shared_ptr<JoinedWorld> JoinedWorld::make(const WorldId& id, World world, int global_rank) {
  std::shared_ptr<JoinedWorld> joined(new JoinedWorld(id, std::move(world), global_rank));
  Registry& registry = Registry::get();
  const ProcessLock lock(OfProcess::Bindings);
  std::erase_if(registry.worlds, [](const auto& w) { return w.expired(); });
  registry.worlds.push_back(joined);
  return joined;
}

bool JoinedWorld::serves() const { return process_ == ::getpid() && world_.status().ok(); }

std::vector<std::shared_ptr<JoinedWorld>> JoinedWorld::all() {
  Registry& registry = Registry::get();
  std::vector<std::shared_ptr<JoinedWorld>> all;
  const ProcessLock lock(OfProcess::Bindings);
  for (const auto& weak : registry.worlds) {
    if (auto joined = weak.lock()) all.push_back(std::move(joined));
  }
  return all;
}

}  // namespace sinew::torch_backend

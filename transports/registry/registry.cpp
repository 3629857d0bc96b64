#include <sinew/transports/inproc/inproc.hpp>
#include <sinew/transports/registry.hpp>
#include <sinew/transports/shm/shm.hpp>
#include <sinew/transports/tcp/tcp.hpp>

namespace sinew {

std::span<Module* const> all_modules() noexcept {
  static Module* const modules[] = {
      &inproc::module(),
      &shm::module(),
      &tcp::module(),
  };
  return modules;
}

Module* find_module(std::string_view name) noexcept {
  for (Module* m : all_modules()) {
    if (m->name() == name) return m;
  }
  return nullptr;
}

}  // namespace sinew

#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/parallel/checkpoint/folder.hpp>
#include <sinew/parallel/checkpoint/load.hpp>
#include <support/worlds.hpp>

#include "tensors.hpp"

namespace sinew::parallel::test {

/// Requires that this step is the newest checkpoint, and that two ranks read all its bytes from it.
inline void require_loads(const std::string& folder, std::int64_t step) {
  ASSERT_EQ(latest_step(folder), step);
  sinew::test::on_threads(2, sinew::test::only("inproc"), [&](World& world) {
    auto parts = parts_of_rank(Lying::Flat, world.rank(), 2, false);
    const Loaded loaded = load_checkpoint(world.communicator(), step_folder(folder, step), parts.all);
    sinew::test::require(parts.wrong_bytes() == 0 && loaded.metadata.step == step, "what was saved");
  });
}

/// The names of what is in a folder, sorted.
inline std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

}  // namespace sinew::parallel::test

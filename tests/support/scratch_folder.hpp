#pragma once

#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/random.hpp>

namespace sinew::test {

/// A folder for files that goes with the test.
class ScratchFolder {
 public:
  ScratchFolder() { std::filesystem::create_directories(path_); }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_ = fmt::format("{}/sinew-test-{:x}", testing::TempDir(), random_id());
};

}  // namespace sinew::test

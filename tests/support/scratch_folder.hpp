#pragma once

#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/base/random.hpp>

namespace sinew::test {

/// A folder for files that goes with the test.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& parent = testing::TempDir())
      : path_(fmt::format("{}/sinew-test-{:x}", parent, random_id())) {
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace sinew::test

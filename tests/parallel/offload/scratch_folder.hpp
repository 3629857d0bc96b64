#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>

namespace sinew::parallel::test {

/// A folder of its own, which is empty at the end.
class ScratchFolderTest : public ::testing::Test {
 protected:
  ScratchFolderTest() : folder_(::testing::TempDir() + "/offload_test_XXXXXX") {
    if (::mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << folder_ << ": " << std::strerror(errno);
  }
  ~ScratchFolderTest() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
    std::filesystem::remove_all(folder_);
  }
  const std::string& folder() const noexcept { return folder_; }

 private:
  std::string folder_;
};

/// The files of this process end at so many bytes, as on a full disk.
class ShortFiles {
 public:
  explicit ShortFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ShortFiles(const ShortFiles&) = delete;
  ShortFiles& operator=(const ShortFiles&) = delete;
  ~ShortFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return fmt::format("{}: {}", name_of(e.code()), e.what());
  }
  return "no error";
}

}  // namespace sinew::parallel::test

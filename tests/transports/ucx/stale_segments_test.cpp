#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/transports/ucx/stale_segments.hpp>

#include "support/scratch_folder.hpp"

namespace sinew::test {
namespace {

namespace files = std::filesystem;

constexpr std::size_t kBytes = 4096;

/// A file of so many seconds ago, open.
FileDescriptor segment(const std::string& path, int age_s) {
  FileDescriptor file(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_EQ(::ftruncate(file.get(), kBytes), 0);
  const std::array<timespec, 2> times{timespec{std::time(nullptr) - age_s, 0}, timespec{std::time(nullptr) - age_s, 0}};
  EXPECT_EQ(::futimens(file.get(), times.data()), 0);
  return file;
}

TEST(UcxStaleSegments, OnlyWhatNobodyUsesIsRemoved) {
  const ScratchFolder folder("/dev/shm");
  const auto abandon = [&](const std::string& name, int age_s) { segment(folder / name, age_s); };
  abandon("ucx_shm_posix_2923f34d", 60);
  abandon("ucx_shm_posix_1", 60);
  abandon("ucx_shm_posix_aaaa", 0);  // may be about to be opened
  abandon("ucx_shm_posix_", 60);     // other programs' names
  abandon("ucx_shm_posix_XY", 60);
  abandon("shm_posix_1", 60);
  const FileDescriptor open = segment(folder / "ucx_shm_posix_b", 60);
  void* mapped = nullptr;
  {
    const FileDescriptor file = segment(folder / "ucx_shm_posix_c", 60);
    mapped = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
  }
  files::create_symlink(folder / "shm_posix_1", folder / "ucx_shm_posix_d");

  EXPECT_EQ(ucx::remove_stale_segments(folder / ""), 2);
  for (const char* kept : {"ucx_shm_posix_aaaa", "ucx_shm_posix_", "ucx_shm_posix_XY", "shm_posix_1", "ucx_shm_posix_b",
                           "ucx_shm_posix_c", "ucx_shm_posix_d"}) {
    EXPECT_TRUE(files::is_regular_file(folder / kept)) << kept;
  }
  ::munmap(mapped, kBytes);
  EXPECT_EQ(ucx::remove_stale_segments(folder / ""), 1) << "what was mapped is not any more";
  EXPECT_FALSE(files::exists(folder / "ucx_shm_posix_c"));
}

TEST(UcxStaleSegments, AFolderThatIsNotThereHasNone) { EXPECT_EQ(ucx::remove_stale_segments("/nowhere/at/all"), 0); }

}  // namespace
}  // namespace sinew::test

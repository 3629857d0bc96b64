#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/core/system/host_name.hpp>
#include <sinew/topology/discover/host_identity.hpp>

namespace sinew {
namespace {

TEST(HostIdentity, IsStableAndNamesBootNetworkAndHost) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string id = host_identity({});
  EXPECT_EQ(id, host_identity({}));
  EXPECT_THAT(id, testing::StartsWith(host_name() + "/boot " + boot + "/net "));
}

TEST(HostIdentity, IsTheConfiguredText_WhenOverridden) {
  Config config;
  config.host_id = "box A";
  EXPECT_EQ(host_identity(config), "box A");
}

TEST(HostIdentity, IsAnother_InAnotherNetworkNamespace) {
  const std::string here = host_identity({});
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(2);
    _exit(host_identity({}) == here ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "network namespaces cannot be made here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace sinew

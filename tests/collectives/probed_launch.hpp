#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <support/run_program.hpp>

// Ranks whose environment a test makes up: each runs tests/programs/exchange_probe.cpp.
namespace sinew::test {

using Strings = std::vector<std::string>;

/// For ranks that shall find no MUNGE: the fake without a folder. With FAKE_MUNGE_FOLDER it works.
constexpr const char* kNoMunge = "LD_LIBRARY_PATH=" FAKES "/munge";

constexpr int kProbeError = 3;  ///< what the probe ends with after an Error

/// A MASTER_PORT for one test, free as this is asked, and below those that the kernel gives to other programs' sockets.
int some_port();

/// The variables of a rank that a person or sinew-run starts on this host. The last of a name counts.
Strings master(int rank, int ranks, int port, const Strings& more = {});

/// What srun sets for a task, where nodes have so many of them.
Strings srun(int task, const std::vector<int>& nodes, int job, const Strings& more = {});

/// Runs the probe once per environment, all at the same time.
std::vector<Outcome> probe_each(const std::vector<Strings>& environments, const Strings& arguments = {});

/// Every rank must have said so once per world.
void expect_all_met(const std::string& out, int ranks, int worlds, const std::string& kind);

bool is_there(const char* program);

/// A file for SINEW_SECRET_FILE while it lives.
class SecretFile {
 public:
  explicit SecretFile(std::string_view text);
  ~SecretFile();
  SecretFile(const SecretFile&) = delete;
  SecretFile& operator=(const SecretFile&) = delete;
  std::string variable() const { return "SINEW_SECRET_FILE=" + path_; }

 private:
  std::string path_;
};

}  // namespace sinew::test

#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <support/scratch_folder.hpp>

namespace sinew::test {

/// SINEW_RSH that stays on this machine: forgets the host's name and runs the command as a remote shell would.
class FakeRsh {
 public:
  /// `before`: what the shell there does first, such as setting variables of its own; $1 is the host.
  explicit FakeRsh(const std::string& before = "") {
    const std::string path = folder_ / "rsh";
    std::ofstream(path) << "#!/bin/sh\necho 'Welcome to this machine'\necho \"$*\" >> " << log() << "\n"
                        << before << "\nshift\nexec sh -c \"$*\"\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  std::string variable() const { return "SINEW_RSH=" + folder_ / "rsh"; }
  std::string log() const { return folder_ / "log"; }

 private:
  ScratchFolder folder_;
};

/// An srun that stays on this machine: takes its options and runs the program, without a shell, in an environment as
/// slurmstepd makes it.
class FakeSrun {
 public:
  FakeSrun() {
    const std::string path = folder_ / "srun";
    std::ofstream(path) << "#!/bin/sh\necho \"$*\" >> " << log()
                        << "\nwhile [ \"${1#-}\" != \"$1\" ]; do [ \"$1\" = -w ] && shift; shift; done\n"
                        << "export SLURM_STEP_ID=3 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1\nexec \"$@\"\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  /// The path on which this srun is found first.
  std::string variable() const { return "PATH=" + folder_ / "" + ":" + std::getenv("PATH"); }
  std::string log() const { return folder_ / "log"; }

 private:
  ScratchFolder folder_;
};

}  // namespace sinew::test

#pragma once

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

}  // namespace sinew::test

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/offload/scratch_file.hpp>

namespace sinew::parallel {

FileDescriptor scratch_file(const std::string& folder) {
  FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR) throw_errno(fmt::format("a scratch file in '{}'", folder));
  std::string name = folder + "/sinew-offload-XXXXXX";  // file systems without O_TMPFILE, such as NFS
  FileDescriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (!named || ::unlink(name.c_str()) != 0) throw_errno(fmt::format("a scratch file in '{}'", folder));
  return named;
}

}  // namespace sinew::parallel

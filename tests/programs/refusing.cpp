#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <support/refused_calls.hpp>

// refusing EPERM|ENOSYS CALL PROGRAM [ARGUMENT..]: runs the program in a sandbox in which the kernel refuses a system
// call with that error. REFUSED_RANK in the environment: only where RANK is the same.
namespace {

const std::map<std::string, std::vector<int>> kCalls = {
    {"sched_getaffinity", {SYS_sched_getaffinity}},
    {"membarrier", {SYS_membarrier}},
    {"memfd_create", {SYS_memfd_create}},
    {"pidfd_open", {SYS_pidfd_open}},
    {"pidfd_getfd", {SYS_pidfd_getfd}},
    {"process_vm_readv", {SYS_process_vm_readv}},
    {"process_vm", {SYS_process_vm_readv, SYS_process_vm_writev}},
    {"userfaultfd", {SYS_userfaultfd}},
    {"io_uring", {SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register}},
};

/// That the filter does what the test believes.
bool is_refused(int call, int error) { return ::syscall(call, -1, nullptr, ~0UL, 0, 0, 0) == -1 && errno == error; }

bool concerns_this_rank() {
  const char* refused = std::getenv("REFUSED_RANK");
  const char* rank = std::getenv("RANK");
  return refused == nullptr || (rank != nullptr && std::strcmp(refused, rank) == 0);
}

}  // namespace

int main(int argc, char** argv) {
  const auto call = argc < 4 ? kCalls.end() : kCalls.find(argv[2]);
  if (call == kCalls.end()) {
    std::fprintf(stderr, "refusing: expected EPERM|ENOSYS CALL PROGRAM [ARGUMENT..]\n");
    return 2;
  }
  if (concerns_this_rank()) {
    const int error = std::strcmp(argv[1], "EPERM") == 0 ? EPERM : ENOSYS;
    if (!sinew::test::refuse_calls(call->second, error)) {
      std::printf("no seccomp filter: %s\n", std::strerror(errno));
      return 77;
    }
    for (const int number : call->second) {
      if (!is_refused(number, error)) return 3;
    }
  }
  ::execvp(argv[3], argv + 3);
  std::perror(argv[3]);
  return 127;
}

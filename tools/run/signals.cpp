#include "signals.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <sinew/core/error.hpp>

namespace sinew::run {
namespace {

bool is_ignored(int number) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

SignalDescriptor::SignalDescriptor(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  ::signal(SIGCHLD, SIG_DFL);
  for (const int n : numbers) {
    if (!is_ignored(n)) sigaddset(&set, n);  // one that is blocked would come to the descriptor all the same
  }
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  descriptor_ = FileDescriptor(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!descriptor_) throw_errno("making a descriptor for signals");
}

int SignalDescriptor::next() const {
  signalfd_siginfo info{};
  return ::read(descriptor_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace sinew::run

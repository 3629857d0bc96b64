#include "transports/ofi/pair.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace sinew::test {
namespace {

Address read_address(int fd) {
  Address a(4096);
  const ssize_t n = ::read(fd, a.data(), a.size());
  EXPECT_GT(n, 0);
  a.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return a;
}

}  // namespace

ofi::Options ofi_options(int rank, const std::string& provider, std::size_t largest_piece) {
  ofi::Options o;
  o.rank = rank;
  o.secret = Bytes(32, std::byte{7});
  o.host_id = "this host";
  o.config.ofi_provider = provider;
  if (largest_piece != 0) o.largest_piece = largest_piece;
  return o;
}

bool drive(Transport& transport, Duration limit, const std::function<bool()>& holds) {
  const auto end = Deadline::after(limit);
  while (!holds() && !end.passed()) transport.progress();
  return holds();
}

ChildPair::ChildPair(const std::string& provider, const Body& body, std::size_t largest_piece) {
  int up[2], down[2];
  if (::pipe(up) != 0 || ::pipe(down) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    const auto mine = ofi::make_transport(ofi_options(1, provider, largest_piece));
    const Address address = mine->address();
    if (::write(up[1], address.data(), address.size()) < 0) ::_exit(1);
    const auto parent = mine->connect(read_address(down[0]));
    body(*mine, *parent);
    ::_exit(0);
  }
  life_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  ofi::Options options = ofi_options(0, provider, largest_piece);
  options.life_of = [this](int) { return life_.get(); };
  transport_ = ofi::make_transport(options);
  const Address address = transport_->address();
  EXPECT_EQ(::write(down[1], address.data(), address.size()), static_cast<ssize_t>(address.size()));
  child_ = transport_->connect(read_address(up[0]));
  for (const int fd : {up[0], up[1], down[0], down[1]}) ::close(fd);
}

ChildPair::~ChildPair() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

}  // namespace sinew::test

#include "hosts/relay/tun_device.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <exception>
#include <thread>

#include <sinew/core/error.hpp>

namespace sinew::test {
namespace {

constexpr int kQueueLength = 10000;  // packets that the kernel keeps until they are read

int checked(int result, const std::string& what) {
  if (result < 0) throw_errno(what);
  return result;
}

sockaddr ipv4(const std::string& text) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  if (::inet_pton(AF_INET, text.c_str(), &a.sin_addr) != 1) {
    throw Error(Code::InvalidArgument, text + ": expected an IPv4 address");
  }
  sockaddr any{};
  std::memcpy(&any, &a, sizeof any);
  return any;
}

ifreq request_for(const std::string& device) {
  ifreq r{};
  device.copy(r.ifr_name, IFNAMSIZ - 1);
  return r;
}

}  // namespace

void in_namespace(const std::string& name, const std::function<void()>& work) {
  std::exception_ptr failed;
  std::thread([&] {
    try {
      const std::string file = "/run/netns/" + name;
      const FileDescriptor there(checked(::open(file.c_str(), O_RDONLY | O_CLOEXEC), "opening " + file));
      checked(::setns(there.get(), CLONE_NEWNET), "entering " + file);
      work();
    } catch (...) {
      failed = std::current_exception();
    }
  }).join();
  if (failed) std::rethrow_exception(failed);
}

FileDescriptor open_tun(const RelayHost& host, const std::string& device, int mtu) {
  FileDescriptor tun;
  in_namespace(host.network_namespace, [&] {
    tun = FileDescriptor(checked(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "opening /dev/net/tun"));
    ifreq r = request_for(device);
    r.ifr_flags = IFF_TUN | IFF_NO_PI;
    checked(::ioctl(tun.get(), TUNSETIFF, &r), "making the device " + device);
    const FileDescriptor socket(checked(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "opening a socket"));
    const auto apply = [&](unsigned long what, const ifreq& with, const char* step) {
      ifreq copy = with;
      checked(::ioctl(socket.get(), what, &copy), std::string(step) + " of " + device);
    };
    r = request_for(device);
    r.ifr_mtu = mtu;
    apply(SIOCSIFMTU, r, "setting the MTU");
    r.ifr_qlen = kQueueLength;
    apply(SIOCSIFTXQLEN, r, "setting the queue length");
    r.ifr_addr = ipv4(host.address);
    apply(SIOCSIFADDR, r, "setting the address");
    r.ifr_netmask = ipv4("255.255.255.0");
    apply(SIOCSIFNETMASK, r, "setting the network");
    r.ifr_flags = IFF_UP | IFF_RUNNING;
    apply(SIOCSIFFLAGS, r, "taking up the link");
  });
  return tun;
}

}  // namespace sinew::test

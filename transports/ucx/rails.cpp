#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/core/log.hpp>
#include <sinew/transports/ucx/embedded.hpp>
#include <sinew/transports/ucx/rails.hpp>

namespace sinew::ucx {
namespace {

struct Device {
  RailAddress address;
  std::string name;
  std::string speed;  ///< in Mbit/s, as the kernel says it; empty: it has none
};

bool is_chosen_by_user() { return std::getenv("UCX_TLS") != nullptr || std::getenv("UCX_NET_DEVICES") != nullptr; }

bool has_rdma_device() {
  std::error_code failed;
  return !std::filesystem::is_empty("/sys/class/infiniband", failed) && !failed;
}

in_addr ipv4_of(const sockaddr* a) {
  sockaddr_in in{};
  std::memcpy(&in, a, sizeof in);
  return in.sin_addr;
}

std::string text_of(in_addr a) {
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &a, text, sizeof text);
  return text;
}

std::string speed_of(const std::string& device) {
  std::ifstream file(fmt::format("/sys/class/net/{}/speed", device));
  std::string speed;
  std::getline(file, speed);
  return speed;
}

/// Those that are up and have an IPv4 address, each network once.
std::vector<Device> devices() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw_errno("ucx: listing network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  std::vector<Device> all;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    const bool up = (i->ifa_flags & IFF_UP) != 0 && (i->ifa_flags & IFF_RUNNING) != 0;
    const bool loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
    if (!up || loopback || i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || i->ifa_netmask == nullptr) {
      continue;
    }
    const in_addr address = ipv4_of(i->ifa_addr), mask = ipv4_of(i->ifa_netmask);
    const std::string network =
        fmt::format("{}/{}", text_of({address.s_addr & mask.s_addr}), std::popcount(mask.s_addr));
    const std::string name = i->ifa_name;
    const auto is_there = [&](const Device& d) { return d.address.network == network || d.name == name; };
    if (std::ranges::any_of(all, is_there)) continue;
    Device& found = all.emplace_back();
    found.address.network = network;
    found.address.machine = text_of(address);
    found.name = name;
    found.speed = speed_of(name);
  }
  return all;
}

}  // namespace

Rails::Rails(int ranks) {
  if (is_chosen_by_user() || has_rdma_device()) return;
  std::vector<Device> all = devices();
  if (all.empty()) return;
  // A message's parts are equal, so a slower rail would hold up the others.
  std::erase_if(all, [speed = all.front().speed](const Device& d) { return d.speed != speed; });
  if (all.size() < 2) return;
  for (Device& d : all) {
    if (all_.size() == kMostRails) break;
    try {
      auto context = std::make_unique<Context>(ranks, d.name);
      d.address.worker = context->address();
      addresses_.push_back(std::move(d.address));
      all_.push_back(std::move(context));
    } catch (const Error& e) {
      log::debug("ucx: no rail over {}: {}", d.name, e.what());
    }
  }
}

void Rails::sleep_beside(const Context& first) {
  if (all_.empty()) return;
  sleep_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!sleep_) throw_errno("epoll_create1");
  const auto add = [this](const Context& context) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (::epoll_ctl(sleep_.get(), EPOLL_CTL_ADD, context.wake_descriptor(), &event) != 0) throw_errno("epoll_ctl");
  };
  add(first);
  for (const auto& context : all_) add(*context);
}

unsigned Rails::progress() noexcept {
  unsigned events = 0;
  for (const auto& context : all_) events += ucp_worker_progress(context->worker());
  return events;
}

bool Rails::arm() noexcept {
  return std::ranges::all_of(all_, [](const auto& c) { return ucp_worker_arm(c->worker()) == UCS_OK; });
}

}  // namespace sinew::ucx

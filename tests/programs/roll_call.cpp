// A rank that makes checked sums with the others of its job. Rank 0 prints how many ranks there are on which hosts:
// roll_call: 6 ranks on 3 hosts (n0:2 n1:2 n2:2), sums right
// --until-signal: each rank prints its process. Sums go on until a rank gets SIGUSR1. Then all end after the same sum.
// --linger: rank 0 keeps its World for a second after the last call.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <sinew/collectives/stop_request.hpp>
#include <sinew/collectives/world.hpp>
#include <sinew/core/system/host_name.hpp>

namespace {

/// Each rank's sum of so many elements, all different; the result is exact in every order.
bool sum_is_right(sinew::Communicator& all, std::size_t count, int salt) {
  std::vector<std::int64_t> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = (all.rank() + 1) * (salt + static_cast<std::int64_t>(i));
  all.all_reduce(data).get();
  const std::int64_t ranks = std::int64_t{all.size()} * (all.size() + 1) / 2;
  for (std::size_t i = 0; i < count; ++i) {
    if (data[i] != ranks * (salt + static_cast<std::int64_t>(i))) return false;
  }
  return true;
}

/// As "2 hosts (a:4 b:4)", in the order of names.
std::string hosts_of(sinew::Communicator& all) {
  std::array<std::uint8_t, 65> name{};
  const std::string host = sinew::host_name();
  std::copy_n(host.begin(), std::min(host.size(), name.size() - 1), name.begin());
  std::vector<std::uint8_t> names(name.size() * static_cast<std::size_t>(all.size()));
  all.all_gather(name, names).get();
  std::map<std::string, int> ranks_of;
  for (std::size_t at = 0; at < names.size(); at += name.size()) {
    const auto end = std::find(names.begin() + static_cast<std::ptrdiff_t>(at), names.end(), 0);
    ++ranks_of[std::string(names.begin() + static_cast<std::ptrdiff_t>(at), end)];
  }
  std::string text;
  for (const auto& [of, ranks] : ranks_of) text += fmt::format("{}{}:{}", text.empty() ? "" : " ", of, ranks);
  return fmt::format("{} hosts ({})", ranks_of.size(), text);
}

/// Returns how many sums were made.
std::int64_t sum_until(const sinew::StopRequest& stop, sinew::Communicator& all, bool& right) {
  fmt::print("roll_call: rank {} of {} is process {} on {}\n", all.rank(), all.size(), ::getpid(), sinew::host_name());
  std::fflush(stdout);
  for (std::int64_t sums = 1;; ++sums) {
    right = sum_is_right(all, 1000, static_cast<int>(sums)) && right;
    if (stop.came_to_any(all)) return sums;
  }
}

}  // namespace

int main(int count, char** arguments) try {
  const auto asked = [&](const char* option) { return count > 1 && std::strcmp(arguments[1], option) == 0; };
  std::optional<sinew::StopRequest> stop;  // before the World, because the signal may come during its start-up
  if (asked("--until-signal")) stop.emplace(std::initializer_list<int>{SIGUSR1});
  sinew::World world = sinew::World::from_environment();
  sinew::Communicator& all = world.communicator();
  bool right = true;
  for (const std::size_t length : {1, 1009, 100000}) right = sum_is_right(all, length, 7) && right;
  const std::string hosts = hosts_of(all);
  std::int64_t sums = 0;
  if (stop) sums = sum_until(*stop, all, right);
  std::array<int, 1> wrong = {right ? 0 : 1};
  all.all_reduce(wrong).get();
  if (all.rank() == 0) {
    const std::string after = stop ? fmt::format(", ended by a signal after {} sums", sums) : "";
    fmt::print("roll_call: {} ranks on {}, sums {}{}\n", all.size(), hosts, wrong[0] == 0 ? "right" : "WRONG", after);
  }
  if (asked("--linger") && all.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  return wrong[0] == 0 ? 0 : 1;
} catch (const sinew::Error& e) {
  std::fprintf(stderr, "roll_call: %s\n", e.what());
  return 1;
}

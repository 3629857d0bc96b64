#include "support/worlds.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sinew/core/error.hpp>

#include "support/ranks.hpp"

namespace sinew::test {

std::vector<const char*> transports_between_processes() {
  return {
      "shm",
      "tcp",
#ifdef SINEW_TEST_UCX
      "ucx",
#endif
  };
}

WorldOptions only(const std::string& transports) {
  WorldOptions options;
  options.config.timeout = std::chrono::seconds(60);
  options.config.transports.clear();
  for (std::size_t at = 0; at < transports.size();) {
    const std::size_t comma = std::min(transports.find(',', at), transports.size());
    options.config.transports.push_back(transports.substr(at, comma - at));
    at = comma + 1;
  }
  options.secret = Bytes(32, std::byte{7});
  return options;
}

void on_threads(int size, const WorldOptions& options, const Body& body) {
  run_as_threads(size, [&](const Exchange& exchange) {
    World world = World::create(exchange, options);
    body(world);
  });
}

void in_processes(int size, const WorldOptions& options, const Body& body) {
  run_as_processes(size, [&](const Exchange& exchange) {
    World world = World::create(exchange, options);
    body(world);
  });
}

void require(bool holds, const std::string& what, std::source_location where) {
  if (!holds) throw Error(Code::Mismatch, fmt::format("{}:{}: {}", where.file_name(), where.line(), what));
}

void require_part(const std::string& text, const std::string& part, std::source_location where) {
  require(text.find(part) != std::string::npos, text, where);
}

std::string complaint(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::InvalidArgument) << e.what();
    return e.what();
  }
  return "no complaint";
}

}  // namespace sinew::test

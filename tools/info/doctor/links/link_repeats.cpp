#include "link_repeats.hpp"

#include <algorithm>
#include <cstddef>

#include "link_speeds.hpp"

namespace sinew::doctor {
namespace {

constexpr int kRounds = 3;
constexpr std::size_t kMostInARound = 16;

}  // namespace

void repeat_slow_links(const Exchange& exchange, int host, std::vector<LinkResult>& results,
                       const std::function<LinkResult(const LinkResult&)>& probe) {
  for (int round = 0; round < kRounds; ++round) {
    std::vector<SlowLink> suspects = slow_links(results);
    suspects.resize(std::min(suspects.size(), kMostInARound));
    for (const SlowLink& suspect : suspects) {
      LinkResult& result = results[static_cast<std::size_t>(suspect.link - results.data())];
      WireWriter again;
      if (result.from_host == host) write(again, probe(result));
      for (const Bytes& said : exchange.all_gather(again.take())) {
        if (said.empty()) continue;
        WireReader from(said);
        add_try(result, read_link_result(from));
      }
    }
  }
}

}  // namespace sinew::doctor

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <sinew/collectives/launch/bootstrap_record.hpp>
#include <sinew/core/error.hpp>
#include <sinew/core/transport/device_links.hpp>
#include <sinew/parallel/checkpoint/index/index.hpp>
#include <sinew/topology/cluster/gather_cluster.hpp>
#include <sinew/topology/cluster/rank_place.hpp>
#include <sinew/transports/tcp/addresses/peer_address.hpp>

#include "only_errors.hpp"

/// What ranks tell each other through the store, PMIx or PMI while a World starts, and before a checkpoint. The first
/// byte says what it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto bytes = std::as_bytes(std::span(text));
  const sinew::Bytes owned(bytes.begin(), bytes.end());
  switch (*data % 5) {
    case 0: sinew::test::only_errors([&] { (void)sinew::tcp::PeerAddress::decode(owned); }); break;
    case 1:
      sinew::test::only_errors([&] {
        const sinew::BootstrapRecord record = sinew::BootstrapRecord::decode(owned);
        sinew::Bootstrap bootstrap;
        sinew::follow(record, bootstrap);
      });
      sinew::test::only_errors([&] { (void)sinew::from_hex(text); });
      break;
    case 2:
      sinew::test::only_errors([&] { (void)sinew::to_bytes(sinew::rank_place_from_bytes(owned)); });
      sinew::test::only_errors([&] {
        const std::array devices{sinew::device_links_from_bytes(owned)};
        if (sinew::device_links_from_bytes(to_bytes(devices[0])) != devices[0]) std::abort();
        (void)device_kind(devices);
      });
      break;
    case 3:
      sinew::test::only_errors([&] {
        const std::vector<sinew::RankPlace> places = {{.host = "a/1"}};
        (void)sinew::merge_cluster(places, std::array{owned});
      });
      break;
    default:
      sinew::test::only_errors([&] { (void)sinew::parallel::to_text(sinew::parallel::descriptions_from_text(text)); });
  }
  return 0;
}

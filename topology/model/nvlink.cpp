#include <fmt/format.h>

#include <sinew/topology/model/nvlink.hpp>

namespace sinew {
namespace {

// The datasheets give both directions of all links of a GPU together; here one direction of one link.
constexpr NvLinkRate kRates[] = {
    {1, 20e9, "Tesla P100 datasheet: 160 GB/s over 4 NVLinks, both ways", 18e9},
    {2, 25e9, "Tesla V100 datasheet: 300 GB/s over 6 NVLinks, both ways", 20e9},
    {3, 25e9, "A100 datasheet: 600 GB/s over 12 NVLinks, both ways", 20e9},
    {4, 25e9, "H100 datasheet: 900 GB/s over 18 NVLinks, both ways", 20.6e9},
    {5, 50e9, "B200 datasheet: 1.8 TB/s over 18 NVLinks, both ways", 40.1e9},
};
constexpr NvLinkRate kBridged3 = {3, 14.0625e9, "RTX A6000 datasheet: 112.5 GB/s over 4 NVLinks, both ways", 12e9};
constexpr int kSmOfBridged3 = 86;

}  // namespace

NvLinkRate nvlink_of_generation(int generation) {
  for (const NvLinkRate& rate : kRates) {
    if (rate.generation == generation) return rate;
  }
  return {};
}

NvLinkRate nvlink_of_sm(int sm) {
  if (sm == kSmOfBridged3) return kBridged3;
  return nvlink_of_generation(sm < 60 ? 0 : sm < 70 ? 1 : sm < 80 ? 2 : sm < 90 ? 3 : sm < 100 ? 4 : sm < 110 ? 5 : 0);
}

Link nvlink(std::string from, std::string to, int links, const NvLinkRate& rate) {
  Link link{LinkKind::NvLink,
            std::move(from),
            std::move(to),
            Figure::unknown("NVLink of a generation not known here"),
            Figure::unknown("not measured"),
            links};
  if (rate.bytes_per_s > 0) link.bytes_per_s = Figure::of(links * rate.bytes_per_s, rate.source);
  return link;
}

}  // namespace sinew

#include <utility>

#include <sinew/topology/model/xgmi.hpp>

namespace sinew {
namespace {

// A link is 16 lanes, 2 bytes in each transfer.
constexpr XgmiRate kXgmiRates[] = {
    {"gfx906", 50e9, "AMD, announcement of MI60 and MI50: 200 GB/s over 2 links, both ways"},
    {"gfx908", 46e9, "ROCm documentation of the MI100: 23 GT/s, 16 lanes"},
    {"gfx90a", 50e9, "ROCm documentation of the MI250: 25 GT/s, 16 lanes"},
    {"gfx940", 64e9, "MI300A datasheet: 128 GB/s a link, both ways"},
    {"gfx941", 64e9, "MI300X datasheet: 128 GB/s a link, both ways"},
    {"gfx942", 64e9, "MI300X datasheet: 128 GB/s a link, both ways"},
    {"gfx950", 76.8e9, "MI355X datasheet: 153.6 GB/s a link, both ways"},
};

}  // namespace

XgmiRate xgmi_of(std::string_view architecture) {
  for (const XgmiRate& rate : kXgmiRates) {
    if (rate.architecture == architecture) return rate;
  }
  return {};
}

Link xgmi(std::string from, std::string to, int links, const XgmiRate& rate) {
  Link link{LinkKind::Xgmi,
            std::move(from),
            std::move(to),
            Figure::unknown("XGMI of a GPU not known here"),
            Figure::unknown("not measured"),
            links};
  if (rate.bytes_per_s > 0) link.bytes_per_s = Figure::of(links * rate.bytes_per_s, rate.source);
  return link;
}

}  // namespace sinew

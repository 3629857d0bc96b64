#include <cstddef>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/common/group_place.hpp>
#include <sinew/parallel/expert/announce.hpp>

namespace sinew::parallel {
namespace {

constexpr std::size_t kHead = 2;  // token and expert of a fault
constexpr std::int64_t kSound = -1;

}  // namespace

std::vector<std::vector<std::int64_t>> announce(CallGroup group, const std::string& name,
                                                const std::vector<std::vector<std::int64_t>>& to,
                                                std::span<const std::size_t> from,
                                                const std::optional<RouterFault>& fault) {
  std::vector<std::int64_t> going;
  std::vector<std::uint64_t> sends, receives;
  std::size_t all = 0;
  for (const std::vector<std::int64_t>& numbers : to) {
    going.push_back(fault ? fault->token : kSound);
    going.push_back(fault ? fault->expert : kSound);
    going.insert(going.end(), numbers.begin(), numbers.end());
    sends.push_back(kHead + numbers.size());
  }
  for (const std::size_t count : from) {
    receives.push_back(kHead + count);
    all += receives.back();
  }
  std::vector<std::int64_t> coming(all);
  if (GroupPlace(group).ranks > 1) {
    group->all_to_all_v(going, coming, {sends}, {receives}, group.options(name.c_str())).get();
  } else {
    coming = going;
  }
  std::vector<std::vector<std::int64_t>> came;
  const std::int64_t* at = coming.data();
  for (std::size_t r = 0; r < from.size(); ++r, at += receives[r - 1]) {
    if (at[0] != kSound)
      throw Error(Code::InvalidArgument,
                  fmt::format("'{}': the logit of token {} for expert {} on {} is no number: expected finite logits",
                              name, at[0], at[1], group->rank_text(static_cast<int>(r))));
    came.emplace_back(at + kHead, at + receives[r]);
  }
  return came;
}

}  // namespace sinew::parallel

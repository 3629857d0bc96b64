#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sinew/core/base/wire.hpp>
#include <sinew/transports/nccl/split.hpp>

namespace sinew::nccl {

SplitErrand::SplitErrand(Endings& endings, std::shared_ptr<Birth> birth, int color, int key)
    : endings_(endings), birth_(std::move(birth)), color_(birth_ ? color : kColorless), key_(key) {
  config_.blocking = 0;
  config_.split_share = 0;  // what is shared is aborted together
}

Result SplitErrand::run(const Api& api, Comm comm) {
  return api.comm_split(comm, color_, key_, birth_ ? &birth_->comm : &nobody_, &config_);
}

/// What NCCL leaves of a part that did not come about is NCCL's.
void SplitErrand::ended(const Status& status) noexcept {
  if (!birth_ || birth_->over) return;
  birth_->over = true;
  birth_->end = status;
  if (!status.ok()) birth_->comm = nullptr;
  if (!birth_->wanted && birth_->comm != nullptr) endings_.abort(birth_->comm, {});
}

SplitAgreement agree_on_split(const SplitContext& split, const SplitAgreement& mine) {
  const std::vector<Bytes> words = split.family.all_gather(
      WireWriter().value(split.color).value(mine.abilities.compute_capability).text(mine.obstacle).take());
  SplitAgreement agreed{{}, mine.abilities};
  for (std::size_t r = 0; r < words.size(); ++r) {
    WireReader reader(words[r]);
    const int color = reader.value<int>();
    const int capability = reader.value<int>();
    int& least = agreed.abilities.compute_capability;
    if (color == split.color) least = std::min(least, capability);
    if (const std::string why = reader.text(); agreed.obstacle.empty() && !why.empty())
      agreed.obstacle = fmt::format("rank {} of the parent: {}", r, why);
  }
  return agreed;
}

}  // namespace sinew::nccl

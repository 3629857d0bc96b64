#include <fmt/format.h>

#include <sinew/collectives/world/making_rounds.hpp>
#include <sinew/core/base/wire.hpp>

namespace sinew {
namespace {

/// The first byte of each contribution.
enum class Says : std::uint8_t { Payload, Failure };

}  // namespace

MakingRounds::MakingRounds(const Exchange& base)
    : base_(&base),
      exchange_{.rank = base.rank,
                .size = base.size,
                .all_gather = [this](const Bytes& mine) { return round(mine); },
                .check =
                    [this] {
                      require_nobody_gave_up();
                      if (base_->check) base_->check();
                    },
                .give_up = [this](const Status& why) { give_up(why); }} {}

std::vector<Bytes> MakingRounds::round(const Bytes& mine) {
  require_nobody_gave_up();
  std::vector<Bytes> all = base_->all_gather(WireWriter().value(Says::Payload).rest(mine).take());
  for (std::size_t r = 0; r < all.size(); ++r) {
    WireReader reader(all[r]);
    if (reader.value<Says>() == Says::Failure) {
      const auto code = reader.value<Code>();
      gave_up_.emplace(code, fmt::format("rank {} could not make its World: {}", r, reader.text()),
                       static_cast<int>(r));
      throw Error(*gave_up_);
    }
    all[r].erase(all[r].begin());
  }
  return all;
}

void MakingRounds::require_nobody_gave_up() const {
  if (gave_up_) throw Error(*gave_up_);
}

void MakingRounds::give_up(const Status& why) const noexcept {
  if (gave_up_) return;  // the others have given up, too
  try {
    const std::string text(why.message());
    static_cast<void>(base_->all_gather(WireWriter().value(Says::Failure).value(why.code()).text(text).take()));
  } catch (const std::exception&) {  // the error of this rank says more than that of the exchange
  }
}

}  // namespace sinew

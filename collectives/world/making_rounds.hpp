#pragma once

#include <optional>
#include <vector>

#include <sinew/core/base/exchange.hpp>
#include <sinew/core/base/export.hpp>
#include <sinew/core/error.hpp>

namespace sinew {

/// The rounds of the exchange in which ranks make a World. A rank that fails between two rounds tells the others in the
/// next one. They then throw its error at once and do not wait for it.
class SINEW_API MakingRounds {
 public:
  /// `base` must outlive this object.
  explicit MakingRounds(const Exchange& base);
  MakingRounds(const MakingRounds&) = delete;
  MakingRounds& operator=(const MakingRounds&) = delete;

  /// An exchange like `base` that has give_up(). Its functions also throw the error of a rank that has given up. They
  /// throw it again in each later call, because some callers catch the errors of a round and go on.
  /// Lifetime: that of this object.
  const Exchange& exchange() const noexcept { return exchange_; }

 private:
  std::vector<Bytes> round(const Bytes& mine);
  void require_nobody_gave_up() const;
  void give_up(const Status& why) const noexcept;

  const Exchange* base_;
  Exchange exchange_;
  std::optional<Error> gave_up_;  ///< what another rank has said
};

}  // namespace sinew

#pragma once

#include <memory>
#include <string>

#include <sinew/core/fabric.hpp>
#include <sinew/transports/nccl/calls/abilities.hpp>
#include <sinew/transports/nccl/endings.hpp>
#include <sinew/transports/nccl/errand.hpp>

namespace sinew::nccl {

/// A communicator that is being split off another one, which knows when it is there. Thread: the driver's.
struct Birth {
  Comm comm = nullptr;
  bool over = false;   ///< `comm` is there, or `end` says why not
  bool wanted = true;  ///< false: who waited for it has gone
  Status end;
};

/// A parent's part in a split.
class SplitErrand final : public Errand {
 public:
  /// `birth`: null where this rank comes into no part; color and key are not looked at then.
  SplitErrand(Endings& endings, std::shared_ptr<Birth> birth, int color, int key);

  const char* function() const noexcept override { return "ncclCommSplit"; }
  Result run(const Api& api, Comm comm) override;
  void ended(const Status& status) noexcept override;

 private:
  Endings& endings_;
  const std::shared_ptr<Birth> birth_;
  const int color_;
  const int key_;
  CommConfig config_;
  Comm nobody_ = nullptr;
};

/// What a rank of a parent brings to a split, and what all of them have found out together.
struct SplitAgreement {
  std::string obstacle;  ///< why ranks meet by a unique id instead; empty: the parent splits
  Abilities abilities;   ///< of the rank; of all ranks of its part
};
/// One round of the family.
SplitAgreement agree_on_split(const SplitContext& split, const SplitAgreement& mine);

}  // namespace sinew::nccl
